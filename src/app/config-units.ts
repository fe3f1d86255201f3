const DURATIONS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 };
const SIZES: Readonly<Record<string, number>> = {
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
};

/** `120s`, `2m`, `1.5h` in milliseconds; null for anything else. A number without a unit is nobody's guess to make. */
export function parseDurationMs(text: string): number | null {
  return scaled(text, DURATIONS);
}

/** `1GiB`, `500MB` in bytes; null for anything else. */
export function parseBytes(text: string): number | null {
  return scaled(text, SIZES);
}

function scaled(text: string, units: Readonly<Record<string, number>>): number | null {
  const match = /^(\d+(?:\.\d+)?) ?([a-zA-Z]+)$/.exec(text.trim());
  const unit = match?.[2]?.toLowerCase();
  if (match === null || unit === undefined || !Object.hasOwn(units, unit)) return null;
  const value = Math.round(Number(match[1]) * (units[unit] ?? Number.NaN));
  return Number.isSafeInteger(value) ? value : null;
}

/** The shortest of `120s`, `2m`, `1h` that says exactly `ms`. */
export function formatDuration(ms: number): string {
  for (const unit of ['h', 'm', 's']) {
    const size = DURATIONS[unit] ?? 1;
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}ms`;
}

/** `1GiB` where it is exact, else bytes. */
export function formatSize(bytes: number): string {
  for (const [unit, name] of [
    ['tib', 'TiB'],
    ['gib', 'GiB'],
    ['mib', 'MiB'],
    ['kib', 'KiB'],
  ] as const) {
    const size = SIZES[unit] ?? 1;
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${name}`;
  }
  return `${bytes}B`;
}

/** `0644` as permission bits; null for anything else, and for a file that its owner could not read. */
export function parseFileMode(text: string): number | null {
  if (!/^0?[0-7]{3}$/.test(text)) return null;
  const mode = Number.parseInt(text, 8);
  return (mode & 0o400) === 0 ? null : mode;
}
