import { TidemarkError } from '../core/errors.ts';
import { type IndexRange, mergeRanges } from '../core/ranges.ts';
import { parseBytes } from './config-units.ts';

/** Rows as people write them: `4711,6802-6810`, both ends included. @throws TidemarkError `usage` */
export function parseRanges(text: string): IndexRange[] {
  const ranges = text.split(',').map((part): IndexRange => {
    const match = /^\s*(\d{1,15})(?:\s*-\s*(\d{1,15}))?\s*$/.exec(part);
    const from = Number(match?.[1]);
    const last = match?.[2] === undefined ? from : Number(match[2]);
    if (match === null || last < from) {
      throw new TidemarkError('usage', `${JSON.stringify(part)} names no rows`, {
        hint: 'name rows as 4711,6802-6810, both ends included',
      });
    }
    return [from, last + 1];
  });
  return mergeRanges(ranges);
}

/** A number above zero. @throws TidemarkError `usage` */
export function positiveNumber(flag: string, text: string): number {
  const value = /^\d{1,9}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
  if (value > 0) return value;
  throw new TidemarkError('usage', `${flag} must be a number above zero, not ${JSON.stringify(text)}`, { hint: 'give it as 1.09' });
}

/** `200MB` or `200MB/s`: bytes a second. @throws TidemarkError `usage` */
export function sizePerSecond(flag: string, text: string): number {
  const bytes = parseBytes(text.replace(/\/s$/, ''));
  if (bytes !== null && bytes > 0) return bytes;
  throw new TidemarkError('usage', `${flag} ${JSON.stringify(text)} is no size a second`, { hint: `for example ${flag} 200MB` });
}
