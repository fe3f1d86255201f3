import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CONFIG_FLAGS } from '../src/app/config-flags.ts';
import { CONFIG_KEYS } from '../src/app/config-schema.ts';
import { EVIDENCE_BOUNDS } from '../src/app/evidence-bounds.ts';
import { EXIT } from '../src/core/exit.ts';
import { REASONS } from '../src/core/verdict.ts';

const root = resolve(import.meta.dirname, '..');
const read = (name: string): string => readFileSync(join(root, name), 'utf8');
const pages = [
  'README.md',
  'ARCHITECTURE.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

describe('the documentation', () => {
  it('links only to what is there', () => {
    const broken = pages.flatMap((page) =>
      [...read(page).matchAll(/\]\(([^)#]+?)(#[^)]*)?\)/g)]
        .map((match) => match[1] ?? '')
        .filter((target) => !/^https?:/.test(target) && !existsSync(join(root, dirname(page), target)))
        .map((target) => `${page}: ${target}`),
    );
    expect(broken).toEqual([]);
  });

  it('lists every configuration key and flag, and no other', () => {
    const text = read('docs/configuration.md');
    const rows = [...text.matchAll(/^\| `([a-zA-Z.]+)` \| (?:`(--[a-z-]+)`)? ?\|/gm)];
    const leaves = CONFIG_KEYS.filter((key) => !CONFIG_KEYS.some((other) => other.startsWith(`${key}.`)));
    expect(rows.map((row) => row[1]).sort()).toEqual([...leaves].sort());
    expect(rows.flatMap((row) => row[2] ?? []).sort()).toEqual(
      Object.values(CONFIG_FLAGS)
        .map((entry) => entry.flag)
        .sort(),
    );
  });

  it('lists every bound of evidence', () => {
    const rows = [...read('docs/evidence.md').matchAll(/^\| `([a-zA-Z]+)`: [^|]+ \| (\d+) \|$/gm)];
    expect(Object.fromEntries(rows.map(([, name, most]) => [name, Number(most)]))).toEqual(EVIDENCE_BOUNDS);
  });

  it('lists every exit code', () => {
    const codes = [...read('docs/exit-codes.md').matchAll(/^\| (\d+) \|/gm)].map((match) => Number(match[1]));
    expect(codes).toEqual(Object.values(EXIT));
  });

  it('lists every verdict and reason', () => {
    const text = read('docs/report.md');
    for (const [verdict, reasons] of Object.entries(REASONS)) {
      for (const word of [verdict, ...reasons]) expect(text, `docs/report.md does not say ${word}`).toContain(`\`${word}\``);
    }
  });
});
