import type { Damage, Parsed } from './tensors.ts';

/**
 * Carries damage from deep inside a parser to its entrance, where `parsed` turns it into data.
 * It never leaves the format room.
 */
export class DamageFound extends Error {
  readonly damage: Damage;

  constructor(damage: Damage) {
    super(damage.detail);
    this.damage = damage;
  }
}

/** The bytes are not what a writer leaves when it finishes. */
export function torn(reason: 'empty' | 'truncated' | 'zero-filled' | 'structure' | 'trailing-bytes', detail: string): never {
  throw new DamageFound({ kind: 'torn', reason, detail });
}

/** The file may be whole, and tidemark does not open it: it asks for code, has another format or an unknown version. */
export function refused(reason: 'hostile' | 'legacy' | 'version', detail: string): never {
  throw new DamageFound({ kind: 'refused', reason, detail });
}

export function corrupt(detail: string): never {
  throw new DamageFound({ kind: 'corrupt', reason: 'checksum', detail });
}

/** Runs a parser and returns the damage it found. Anything else that is thrown (the machine's errors) passes through. */
export async function parsed<T>(parse: () => Promise<T>): Promise<Parsed<T>> {
  try {
    return { ok: true, value: await parse() };
  } catch (error) {
    if (error instanceof DamageFound) return { ok: false, damage: error.damage };
    throw error;
  }
}

/** Text from a file as it may stand in a message: quoted, escaped, and cut, because the file chose its length. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
