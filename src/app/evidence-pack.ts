import { createHash } from 'node:crypto';
import { mapStrings } from '../core/json-strings.ts';
import type { RedactionCounts, Redactor } from '../core/redact.ts';
import type { RowWords } from '../core/row-words.ts';
import type { EvidenceLine, Gathered } from './evidence-member.ts';

export interface PackedMember {
  readonly name: string;
  readonly source: string;
  readonly bytes: Uint8Array;
  readonly sha256: string;
  readonly leftOut: readonly string[];
  readonly redacted: RedactionCounts;
}

/** A member whose secrets and names are out, and whose rows' text is still to be looked for. */
export interface Redacted {
  readonly member: Gathered;
  readonly content:
    | { readonly kind: 'json'; readonly value: unknown }
    | { readonly kind: 'lines'; readonly lines: readonly string[]; readonly lineCharacters: number };
  readonly counts: RedactionCounts;
}

/**
 * Redacts all members, the whole of them twice: what stands in the first may hold a secret that only the last shows to be one.
 */
export function redactMembers(members: readonly Gathered[], redactor: Redactor): Redacted[] {
  for (const member of members) redactMember(member, redactor);
  redactor.takeCounts();
  return members.map((member) => redactMember(member, redactor));
}

function redactMember(member: Gathered, redactor: Redactor): Redacted {
  const { content } = member;
  const redacted: Redacted['content'] =
    content.kind === 'json'
      ? { kind: 'json', value: redactor.json(content.value) }
      : { ...content, lines: content.lines.map((line) => redactLine(line, redactor)) };
  return { member, content: redacted, counts: redactor.takeCounts() };
}

function redactLine(line: EvidenceLine, redactor: Redactor): string {
  if (typeof line === 'string') return redactor.text(line);
  const value = typeof line.value === 'string' ? redactor.text(line.value) : JSON.stringify(redactor.json(line.value, line.origin));
  return line.before + value;
}

export function learnWords(members: readonly Redacted[], words: RowWords): void {
  for (const { content } of members) {
    if (content.kind === 'lines') for (const line of content.lines) words.learn(line);
    else
      mapStrings(content.value, (text) => {
        words.learn(text);
        return text;
      });
  }
}

/** Without what rows of the dataset hold, too. */
export function cutRowText(redacted: Redacted, words: RowWords): Redacted {
  let cuts = 0;
  const cut = (text: string): string => {
    const found = words.cut(text);
    cuts += found.cuts;
    return found.text;
  };
  const { content, counts } = redacted;
  const cutContent: Redacted['content'] =
    content.kind === 'json' ? { kind: 'json', value: mapStrings(content.value, cut) } : { ...content, lines: content.lines.map(cut) };
  return { ...redacted, content: cutContent, counts: cuts === 0 ? counts : { ...counts, text: (counts.text ?? 0) + cuts } };
}

/** The bytes as they go into the tarball; null when a secret is still in them, in a form that could not be replaced. */
export function packMember({ member, content, counts }: Redacted, redactor: Redactor): PackedMember | null {
  const text =
    content.kind === 'json'
      ? `${JSON.stringify(content.value, null, 2)}\n`
      : content.lines.map((line) => `${visibleLine(line, content.lineCharacters)}\n`).join('');
  if (redactor.leaks(text)) return null;
  return packedText(member.name, text, {
    source: redactor.text(member.source),
    leftOut: member.leftOut.map((one) => redactor.text(one)),
    redacted: counts,
  });
}

export function packedText(name: string, text: string, about: Pick<PackedMember, 'source' | 'leftOut' | 'redacted'>): PackedMember {
  const bytes = Buffer.from(text, 'utf8');
  return { name, bytes, sha256: createHash('sha256').update(bytes).digest('hex'), ...about };
}

/** One line stays one, and no terminal obeys it. */
function visibleLine(line: string, most: number): string {
  const plain = line.replace(/[\p{Cc}\u2028\u2029]/gu, ' ');
  return plain.length <= most ? plain : `${plain.slice(0, most)} (${plain.length - most} characters more)`;
}
