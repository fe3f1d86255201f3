import { isSecretValue, type Kind, namesSecret, PASSES, type Replace } from './redact-forms.ts';
import { cutSpeech, namesSpeech, textMark } from './redact-speech.ts';

/** How often something was replaced, by kind; `text` counts what was cut because somebody may have said it. */
export type RedactionCounts = Readonly<Partial<Record<Kind | 'text', number>>>;

/** Whose words a document's keys are: of a foreign one, what stands under `prompt` and the like is left out whole. */
export type Origin = 'ours' | 'foreign';

export interface Redactor {
  /** Free text of any length; line breaks stay. */
  text(text: string): string;
  /** Every string of a JSON value, by what it holds and by the key that it stands under. Numbers, and with them ranges and sizes, stay. */
  json<T>(value: T, origin?: Origin): T;
  /** A name that is known to be of this kind, from a fact rather than from a form. */
  know(kind: Kind, value: string): void;
  /** What was replaced since the last call. */
  takeCounts(): RedactionCounts;
  /** How many different things of each kind there are. */
  distinct(): RedactionCounts;
  /** Whether a text holds a secret that is known; must never be so of what was redacted. */
  leaks(text: string): boolean;
}

/**
 * Replaces what must not leave the machine by stand-ins: the same thing has the same one (`<host-1>`) wherever it stands, as long as
 * one redactor is used, and nothing but its memory ties them. A thing that was found once by its form is from then on found everywhere,
 * so go over everything once and throw the result away: what comes first may hold what only later is known to be a secret.
 */
export function createRedactor(): Redactor {
  return new StandInRedactor();
}

/** Words that a person or machine may be called, and that say nothing: they are replaced where the form shows them, not wherever they stand. */
const GENERIC =
  /^(?:root|users?|ubuntu|debian|admin|nobody|git|api|tokens?|secrets?|pass(?:word)?|hosts?|node|server|master|worker|main|head|login|local|localhost|gpu|box|vm|data|models?|work|home|shared?|runs?|tests?|tmp|var|mnt|srv|opt|default|ip|mac|email|text|basic|bearer|none|kernel|driver|engine|tidemark|memory)\d?$/i;
const SOUGHT_LEAST: Readonly<Record<Kind, number>> = { secret: 4, user: 3, host: 3, ip: 7, email: 6, mac: 17 };
const DEPTH_MOST = 64;
/** So many different things are looked for everywhere; beyond it only their forms find them. */
const SOUGHT_MOST = 5000;

class StandInRedactor implements Redactor {
  readonly #standIns = new Map<string, string>();
  readonly #distinct = new Map<Kind, number>();
  /** Values that are looked for everywhere, with what stands for them. */
  readonly #sought = new Map<string, { readonly kind: Kind; readonly standIn: string }>();
  #search: RegExp | null = null;
  #counts: Partial<Record<Kind | 'text', number>> = {};

  text(text: string): string {
    const replace: Replace = (kind, value, weak = false) => {
      this.#count(kind, 1);
      return this.#standIn(kind, value, !weak || /[\d.-]/.test(value));
    };
    // What was said goes last: a secret in the middle of it is known from then on.
    const speech = cutSpeech(PASSES.reduce((left, pass) => pass(left, replace), this.#replaceKnown(text)));
    if (speech.cuts > 0) this.#count('text', speech.cuts);
    return speech.text;
  }

  json<T>(value: T, origin: Origin = 'ours'): T {
    return this.#value(value, '', origin, 0) as T;
  }

  know(kind: Kind, value: string): void {
    if (value !== '') this.#standIn(kind, value, true);
  }

  takeCounts(): RedactionCounts {
    const counts = this.#counts;
    this.#counts = {};
    return counts;
  }

  distinct(): RedactionCounts {
    return Object.fromEntries(this.#distinct);
  }

  leaks(text: string): boolean {
    return [...this.#sought].some(([value, { kind }]) => kind === 'secret' && value.length >= 8 && text.includes(value));
  }

  #value(value: unknown, key: string, origin: Origin, depth: number): unknown {
    if (depth > DEPTH_MOST) return '<left out: too deep>';
    if (origin === 'foreign' && value !== null && namesSpeech(key) && typeof value !== 'number') {
      this.#count('text', 1);
      return textMark((JSON.stringify(value) ?? '').length);
    }
    if (typeof value === 'string') return this.#string(value, key);
    if (typeof value === 'number' || typeof value === 'boolean' || value === null || value === undefined) return value;
    if (Array.isArray(value)) return this.#array(value, key, origin, depth);
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [this.text(name), this.#value(inner, name, origin, depth + 1)]));
  }

  /** An argument list is one, too: what follows `--api-key` is the key. */
  #array(list: readonly unknown[], key: string, origin: Origin, depth: number): unknown[] {
    return list.map((item, at) => {
      const before = list[at - 1];
      const flag = typeof before === 'string' && before.startsWith('-') ? before : key;
      return this.#value(item, flag, origin, depth + 1);
    });
  }

  #string(text: string, key: string): string {
    const kind = kindOfKey(key);
    if (kind === null || (kind === 'secret' && !isSecretValue(key, text))) return this.text(text);
    if (kind === 'host' && !/^[A-Za-z0-9][\w.-]*$/.test(text)) return this.text(text);
    if (kind === 'user' && !/^[\w.@-]+$/.test(text)) return this.text(text);
    this.#count(kind, 1);
    return this.#standIn(kind, text, true);
  }

  #replaceKnown(text: string): string {
    if (this.#sought.size === 0) return text;
    this.#search ??= searchFor([...this.#sought.keys()]);
    return text.replace(this.#search, (found) => {
      const known = this.#sought.get(found) ?? this.#sought.get(found.toLowerCase());
      if (known === undefined) return found;
      this.#count(known.kind, 1);
      return known.standIn;
    });
  }

  #standIn(kind: Kind, value: string, everywhere: boolean): string {
    const id = `${kind}\0${kind === 'secret' || kind === 'user' ? value : value.toLowerCase()}`;
    let standIn = this.#standIns.get(id);
    if (standIn === undefined) {
      const number = (this.#distinct.get(kind) ?? 0) + 1;
      this.#distinct.set(kind, number);
      standIn = `<${kind}-${number}>`;
      this.#standIns.set(id, standIn);
    }
    if (everywhere) for (const form of formsOf(kind, value)) this.#seek(kind, form, standIn);
    return standIn;
  }

  #seek(kind: Kind, form: string, standIn: string): void {
    const key = kind === 'secret' || kind === 'user' ? form : form.toLowerCase();
    if (form.length < SOUGHT_LEAST[kind] || GENERIC.test(form) || this.#sought.has(key) || this.#sought.size >= SOUGHT_MOST) return;
    // Four letters may be a word; with a digit or a mark among them they are none.
    if (kind === 'secret' && form.length < 6 && !/[^A-Za-z]/.test(form)) return;
    this.#sought.set(key, { kind, standIn });
    this.#search = null;
  }

  #count(kind: Kind | 'text', times: number): void {
    this.#counts[kind] = (this.#counts[kind] ?? 0) + times;
  }
}

function kindOfKey(key: string): Kind | null {
  if (namesSecret(key)) return 'secret';
  if (/^(?:host|hostname|host_name|nodename)$/i.test(key)) return 'host';
  return /^(?:user|username|user_name|login|logname)$/i.test(key) ? 'user' : null;
}

/** A password stands in a URL with escapes and elsewhere without; a machine is called by its first name, too. */
function formsOf(kind: Kind, value: string): string[] {
  if (kind === 'secret' || kind === 'user') {
    const plain = decoded(value);
    return [...new Set([value, plain, encodeURIComponent(plain)])];
  }
  const first = kind === 'host' ? (value.split('.')[0] ?? '') : '';
  return first !== value && /[\d-]/.test(first) && !/^\d+$/.test(first) ? [value, first] : [value];
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

/** The longest first, so that a name inside a longer one does not take its place. A short one is found only where it stands alone. */
function searchFor(values: readonly string[]): RegExp {
  const sorted = [...values].sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
  const parts = sorted.map((value) => {
    const escaped = value.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&');
    return value.length >= 12 ? escaped : `(?<![A-Za-z0-9])${escaped}(?![A-Za-z0-9])`;
  });
  return new RegExp(parts.join('|'), 'gi');
}
