/** A JSON value with every string in it, keys too, put through `change`. */
export function mapStrings<T>(value: T, change: (text: string) => string): T {
  return mapped(value, change) as T;
}

function mapped(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((item) => mapped(item, change));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [change(key), mapped(inner, change)]));
}

/** The value with every list cut to `most` items; how many items went. */
export function shortenLists<T>(value: T, most: number): { readonly value: T; readonly leftOut: number } {
  let leftOut = 0;
  const shortened = (inner: unknown): unknown => {
    if (Array.isArray(inner)) {
      leftOut += Math.max(0, inner.length - most);
      return inner.slice(0, most).map(shortened);
    }
    if (typeof inner !== 'object' || inner === null) return inner;
    return Object.fromEntries(Object.entries(inner).map(([key, one]) => [key, shortened(one)]));
  };
  return { value: shortened(value) as T, leftOut };
}
