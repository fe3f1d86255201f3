const DECIMAL = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** For people: three significant digits, decimal units, as disks are sold and `df -H` prints. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < DECIMAL.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${DECIMAL[unit]}`;
}

/** For people: `850 ms`, `41 s`, `3 min 20 s`, `4 h 49 min`, `2 d 3 h`. */
export function formatSeconds(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (seconds < 600) return twoUnits(Math.round(seconds), 60, 'min', 's');
  if (minutes < 48 * 60) return minutes < 60 ? `${minutes} min` : twoUnits(minutes, 60, 'h', 'min');
  return twoUnits(Math.round(seconds / 3600), 24, 'd', 'h');
}

function twoUnits(value: number, per: number, large: string, small: string): string {
  const rest = value % per;
  return rest === 0 ? `${value / per} ${large}` : `${Math.floor(value / per)} ${large} ${rest} ${small}`;
}

/** For people: digits in groups of three, as in `18 421`. An index is no count: row 18424 stays as it can be typed. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ' ');
}

/** A count with its noun: `1 row`, `18 421 rows`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${plural(count, one, many)}`;
}

/** The word for so many: `plural(count, 'is', 'are')`. */
export function plural(count: number, one: string, many: string): string {
  return count === 1 ? one : many;
}

/** A pace: `1.09/s`, `5.4/min`, `40/h`, never in powers of ten. */
export function formatRate(perSecond: number): string {
  const [value, unit] = perSecond >= 0.1 ? [perSecond, 's'] : perSecond * 60 >= 0.1 ? [perSecond * 60, 'min'] : [perSecond * 3600, 'h'];
  return `${value >= 100 ? formatCount(Math.round(value)) : Number(value.toPrecision(3))}/${unit}`;
}
