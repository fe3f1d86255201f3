import type { Extra } from '../core/report.ts';

/** Names that samples have in the layouts we know, longest first. */
const SAMPLE_EXTENSIONS = ['ckpt.gz', 'safetensors', 'ckpt', 'pt'] as const;

const TEMPORARY = [
  /^\.nfs[0-9a-f]{8,}$/, // deleted while open on NFS
  /^tmp[A-Za-z0-9_]{6,8}$/, // Python's tempfile
  /^\.tmp[A-Za-z0-9_]{6}$/, // safetensors 0.8
  /\.(tmp|temp|part|partial|incomplete|filepart|crdownload)$/i,
  /^\..+\.[A-Za-z0-9]{6}$/, // rsync
  /^\.(fuse_hidden|goutputstream)/,
  /\.tmp\.\d+$/,
];
const LOCK = [/\.(lock|lck)$/i, /^\.~lock\..*#$/, /^\.?lock$/i];
const BACKUP = [/~$/, /\.(bak|orig|old|backup|save)$/i, /\.sw[a-p]$/, /^#.*#$/];

/** What a name that is no row's file most likely is. Names only: nothing is opened, and nothing is done to it. */
export function kindOfForeign(folder: string, name: string): Extra['kind'] {
  if (folder === 'lost+found' || folder.startsWith('lost+found/') || folder.endsWith('/lost+found')) return 'lost+found';
  if (LOCK.some((pattern) => pattern.test(name))) return 'lock';
  if (BACKUP.some((pattern) => pattern.test(name))) return 'backup';
  if (TEMPORARY.some((pattern) => pattern.test(name))) return 'temp';
  if (extensionOf(name) !== null) return 'off-pattern';
  return 'other';
}

/** The sample extension of a name, without the dot, or null. */
export function extensionOf(name: string): string | null {
  return SAMPLE_EXTENSIONS.find((extension) => name.endsWith(`.${extension}`)) ?? null;
}

/** The name with every other sample extension: what a second file of the same row would have been called. */
export function otherExtensions(name: string): string[] {
  const extension = extensionOf(name);
  if (extension === null) return [];
  const stem = name.slice(0, -extension.length);
  return SAMPLE_EXTENSIONS.filter((other) => other !== extension).map((other) => stem + other);
}
