import type { Origin } from '../core/redact.ts';

/** A line of text, or a JSON value with what stands before it in its line (a journal's length and checksum). */
export type EvidenceLine = string | { readonly before: string; readonly value: unknown; readonly origin: Origin };

/** One file of the tarball before anything was redacted. */
export interface Gathered {
  readonly name: string;
  /** Where it comes from, in words or as a path. */
  readonly source: string;
  /** `lineCharacters`: longer lines are cut once they are redacted. */
  readonly content:
    | { readonly kind: 'json'; readonly value: unknown }
    | { readonly kind: 'lines'; readonly lines: readonly EvidenceLine[]; readonly lineCharacters: number };
  /** What of its source is not in it, and why; sentences. */
  readonly leftOut: readonly string[];
}

/** What could not be read, or is not there to be read. */
export interface Unknown {
  readonly what: string;
  readonly why: string;
}

export interface GatheredPart {
  readonly members: readonly Gathered[];
  readonly unknown: readonly Unknown[];
}
