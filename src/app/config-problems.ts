import { isMap, isNode, isScalar, type LineCounter, type Node, type Document as YamlDocument } from 'yaml';
import type { z } from 'zod';
import { CONFIG_KEYS } from './config-schema.ts';

/** What is wrong, at which line (0: nowhere in particular). */
export interface ConfigProblem {
  readonly line: number;
  readonly text: string;
}

type Path = readonly PropertyKey[];

/** Zod's issues in words and with their lines; several issues of one value are one problem. */
export function problemsOf(issues: readonly z.core.$ZodIssue[], document: YamlDocument, lines: LineCounter): ConfigProblem[] {
  const problems = new Map<string, ConfigProblem>();
  for (const issue of issues) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        const path = [...issue.path, key];
        problems.set(nameOf(path), { line: lineOf(keyNode(document, issue.path, key), lines), text: unknownKey(issue.path, key) });
      }
      continue;
    }
    const name = nameOf(issue.path);
    if (problems.has(name)) continue;
    problems.set(name, {
      line: lineOf(valueNode(document, issue.path), lines),
      text: `${name === '' ? 'the configuration' : name} must be ${issue.message}, and is ${shown(document, issue.path)}`,
    });
  }
  return [...problems.values()].sort((a, b) => a.line - b.line);
}

/** `engine.urls[1]` */
export function nameOf(path: Path): string {
  return path.reduce<string>(
    (name, key) => (typeof key === 'number' ? `${name}[${key}]` : name === '' ? String(key) : `${name}.${String(key)}`),
    '',
  );
}

function valueNode(document: YamlDocument, path: Path): unknown {
  return path.length === 0 ? document.contents : document.getIn(path, true);
}

function keyNode(document: YamlDocument, parent: Path, key: string): unknown {
  const map = valueNode(document, parent);
  if (!isMap(map)) return map;
  return map.items.find((pair) => (isScalar(pair.key) ? String(pair.key.value) : String(pair.key)) === key)?.key;
}

function lineOf(node: unknown, lines: LineCounter): number {
  const range = isNode(node) ? (node as Node).range : null;
  return range ? lines.linePos(range[0]).line : 0;
}

function shown(document: YamlDocument, path: Path): string {
  const node = valueNode(document, path);
  const value: unknown = isNode(node) ? node.toJS(document) : node;
  if (value === null || value === undefined) return 'empty';
  const text = jsonOf(value);
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`;
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    // An alias may stand inside of what it names.
    return 'a value that holds itself';
  }
}

function unknownKey(parent: Path, key: string): string {
  const prefix = parent.length === 0 ? '' : `${nameOf(parent)}.`;
  const nearest = nearestKey(prefix, key);
  if (nearest !== null) return `${prefix}${key} is not a key; did you mean ${nearest}?`;
  const siblings = CONFIG_KEYS.filter((name) => name.startsWith(prefix) && !name.slice(prefix.length).includes('.'));
  return `${prefix}${key} is not a key; ${prefix === '' ? 'the keys are' : `the keys of ${prefix.slice(0, -1)} are`} ${siblings.map((name) => name.slice(prefix.length)).join(', ')}`;
}

/** The valid key that `key` most likely stands for: of the same section if it is near enough, else of another. */
export function nearestKey(prefix: string, key: string): string | null {
  const plain = (name: string): string => name.toLowerCase().replaceAll(/[-_ ]/g, '');
  const wanted = plain(key);
  const limit = Math.max(1, Math.floor(wanted.length / 3));
  let best: { readonly name: string; readonly cost: number } | null = null;
  for (const name of CONFIG_KEYS) {
    const last = name.slice(name.lastIndexOf('.') + 1);
    const distance = editDistance(wanted, plain(last));
    // A key of another section must be nearer to win over one of this section.
    const cost = distance * 2 + (name === prefix + last ? 0 : 1);
    if (distance <= limit && (best === null || cost < best.cost)) best = { name, cost };
  }
  return best?.name ?? null;
}

/** Levenshtein: how many letters must be put in, left out or changed. */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j += 1) {
      const replaced = (row[j] ?? 0) + (letter === b[j] ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
