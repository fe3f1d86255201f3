import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { program, ROOT, Running } from '../support/processes.ts';

it('gives a package whose command works without the optional ONNX runtime', async () => {
  const place = mkdtempSync(join(tmpdir(), 'tidemark-pack-'));
  const packed = JSON.parse(await program('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', place])) as {
    filename: string;
    files: { path: string }[];
  }[];
  const names = packed[0]?.files.map((file) => file.path) ?? [];
  expect(names).toEqual(
    expect.arrayContaining(['LICENSE', 'README.md', 'dist/cli/main.js', 'docs/on-disk.md', 'models/tide-5m/model.onnx']),
  );
  expect(names.filter((name) => /\.test\.|^test\/|^src\//.test(name))).toEqual([]);

  const home = join(place, 'project');
  mkdirSync(home);
  writeFileSync(join(home, 'package.json'), '{"private": true}');
  await program('npm', ['install', '--prefix', home, '--omit=optional', '--no-fund', '--no-audit', join(place, packed[0]?.filename ?? '')]);
  expect(existsSync(join(home, 'node_modules/onnxruntime-node'))).toBe(false);
  const command = join(home, 'node_modules/.bin/tidemark');

  const help = await new Running(command, ['--help']).finished;
  expect(help.code).toBe(0);
  expect(help.stdout).toContain('resume');

  const empty = join(place, 'empty');
  mkdirSync(empty);
  const assessed = await new Running(command, ['assess', empty]).finished;
  expect(assessed.code).toBe(6);
  expect(assessed.stderr).toContain('next:');

  const engine = await new Running(command, ['engine', '--model', join(ROOT, 'models/tide-5m')]).finished;
  expect(engine.code).toBe(1);
  expect(engine.stderr).toContain('npm install onnxruntime-node');
  rmSync(place, { recursive: true });
});
