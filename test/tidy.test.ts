import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { VERSION } from '../src/app/version.ts';

const root = resolve(import.meta.dirname, '..');
const source = join(root, 'src');

/** Which rooms a room may import (ARCHITECTURE.md has the table with reasons). A file name stands for that contract alone. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  host: ['core'],
  format: ['core'],
  dataset: ['core', 'format', 'host/host.ts'],
  engine: ['core', 'format', 'host/host.ts'],
  ledger: ['core', 'format', 'host/host.ts'],
  store: ['core', 'format', 'host/host.ts'],
  serve: ['core', 'format', 'host/host.ts'],
  extract: ['core', 'format', 'host/host.ts', 'dataset/dataset.ts', 'engine/engine.ts', 'store/store.ts', 'ledger/ledger.ts'],
  generate: ['core', 'format', 'host/host.ts', 'dataset/dataset.ts', 'engine/engine.ts', 'store/store.ts', 'ledger/ledger.ts'],
  // A checksum is a total function.
  assess: ['core', 'format/crc32.ts'],
  recover: ['core', 'extract', 'store/store.ts', 'ledger/ledger.ts'],
  app: ['core', 'host', 'format', 'dataset', 'engine', 'ledger', 'store', 'serve', 'extract', 'generate', 'assess', 'recover'],
  cli: ['core', 'app', 'web'],
  web: ['core'],
};

/** Files of assess that read through contracts; everything else there is pure. */
const GATHER = ['core', 'format', 'host/host.ts', 'store/store.ts', 'ledger/ledger.ts', 'dataset/dataset.ts'];

const BANNED: readonly { readonly what: RegExp; readonly only: readonly string[]; readonly instead: string }[] = [
  { what: /from 'node:(fs|fs\/promises|child_process)'/, only: ['host/'], instead: 'host.files' },
  { what: /\bfetch\(|from 'undici'/, only: ['host/'], instead: 'host.http' },
  { what: /\bDate\.now\(|new Date\(\)/, only: ['host/'], instead: 'host.clock.now()' },
  { what: /\bMath\.random\(/, only: ['host/'], instead: 'host.randomBytes()' },
  // web/ holds the page's own script, which runs in a browser.
  { what: /\bperformance\.now\(|\bsetTimeout\(/, only: ['host/', 'web/'], instead: 'host.clock' },
  { what: /\.listen\(/, only: ['web/', 'serve/'], instead: 'a server in web/ or serve/' },
  { what: /\bprocess\.(argv|exit|exitCode)\b/, only: ['cli/main.ts'], instead: 'arguments and exit in cli/main.ts' },
  { what: /^\s*console\./m, only: [], instead: 'the terminal of the command' },
];

function filesBelow(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : [path];
  });
}

const files = filesBelow(source)
  .filter((path) => path.endsWith('.ts'))
  .map((path) => ({ name: relative(source, path), text: readFileSync(path, 'utf8') }));
const product = files.filter((file) => !file.name.endsWith('.test.ts'));

function importsOf(file: { name: string; text: string }): string[] {
  const found = [...file.text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map((match) => match[1] ?? '');
  return found.map((path) => relative(source, resolve(source, dirname(file.name), path)));
}

function allowed(from: string, to: string): boolean {
  const room = from.split('/')[0] ?? '';
  const target = to.split('/')[0] ?? '';
  if (room === target) return true;
  const rooms = room === 'assess' && /^assess\/gather/.test(from) ? GATHER : (MAY_IMPORT[room] ?? []);
  return rooms.includes(target) || rooms.includes(to);
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/\/\/.*$/gm, '');
}

describe('house rules', () => {
  it('lets imports run in one direction only', () => {
    const wrong = product.flatMap((file) =>
      importsOf(file)
        .filter((to) => !allowed(file.name, to))
        .map((to) => `${file.name} imports ${to}`),
    );
    expect(wrong).toEqual([]);
  });

  it('has a rule for every room', () => {
    expect([...new Set(product.map((file) => file.name.split('/')[0]))].sort()).toEqual(Object.keys(MAY_IMPORT).sort());
  });

  it('keeps the machine behind its one door', () => {
    const wrong = product.flatMap((file) =>
      BANNED.filter((ban) => !ban.only.some((prefix) => file.name.startsWith(prefix)) && ban.what.test(file.text)).map(
        (ban) => `${file.name}: ${ban.what} (use ${ban.instead})`,
      ),
    );
    expect(wrong).toEqual([]);
  });

  it('keeps files small enough to know', () => {
    const lengths = product.map((file) => ({ name: file.name, lines: file.text.split('\n').length }));
    expect(lengths.filter((file) => file.lines > 420)).toEqual([]);
    const long = lengths.filter((file) => file.lines > 320);
    expect(long.length, `over 320 lines: ${long.map((file) => file.name).join(', ')}`).toBeLessThanOrEqual(lengths.length / 10);
  });

  it('has no room for things without an owner', () => {
    const names = product.filter((file) => /(^|\/)(utils?|helpers?|types|common|misc|index)\.ts$/.test(file.name));
    expect(names.map((file) => file.name)).toEqual([]);
  });

  it('never widens a type to any, nor silences a checker', () => {
    const wrong = files.filter(
      (file) => /: any\b|\bas any\b/.test(withoutComments(file.text)) || /@ts-(ignore|nocheck|expect-error)|biome-ignore/.test(file.text),
    );
    expect(wrong.map((file) => file.name)).toEqual([]);
  });

  it('states one version', () => {
    expect(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version).toBe(VERSION);
  });
});
