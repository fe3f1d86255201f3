import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const ROOM = new URL('.', import.meta.url);
const PAGE = new URL('../../docs/findings.md', import.meta.url);
const CODE = /TM-[SLDEH]\d{2}/g;

it('has every code of the source in docs/findings.md, and no other', () => {
  const source = readdirSync(ROOM).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'));
  const used = new Set(source.flatMap((name) => readFileSync(new URL(name, ROOM), 'utf8').match(CODE) ?? []));
  const listed = readFileSync(PAGE, 'utf8').match(CODE) ?? [];
  expect([...new Set(listed)].sort()).toEqual([...used].sort());
  const rows = readFileSync(PAGE, 'utf8').match(/^\| TM-[SLDEH]\d{2}/gm) ?? [];
  expect(new Set(rows).size).toBe(rows.length);
  expect(rows.length).toBe(used.size);
});
