import type { Parsed } from '../format/tensors.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';
import { openGzipSample } from './gzip-sample.ts';
import { openSafetensorsSample } from './safetensors-sample.ts';
import type { Layout, Opened, StoredSample, StoreReader } from './store.ts';
import { openTorchSample } from './torch-sample.ts';

/** The read-only half of a store: what assessment gets. */
export function createStoreReader(files: FileReader, folder: string, layout: Layout): StoreReader {
  const openAt = async (path: string): Promise<Opened | null> => {
    const file = await files.open(`${folder}/${path}`);
    return file === null ? null : openStored(file, layout);
  };
  return { folder, layout, open: (index) => openAt(layout.pathOf(index)), openAt };
}

async function openStored(file: ReadableFile, layout: Layout): Promise<Opened> {
  let keep = false;
  try {
    const opened = await openSample(file, layout);
    keep = opened.ok;
    return opened.ok ? { ok: true, sample: opened.value, stat: file.stat } : { ...opened, stat: file.stat };
  } finally {
    if (!keep) await file.close();
  }
}

function openSample(file: ReadableFile, layout: Layout): Promise<Parsed<StoredSample>> {
  switch (layout.codec) {
    case 'torch-zip':
      return openTorchSample(file, layout);
    case 'torch-gzip':
      return openGzipSample(file, layout);
    case 'safetensors':
      return openSafetensorsSample(file, layout);
  }
}
