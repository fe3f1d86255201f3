import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['src/**/*.test.ts', 'test/tidy.test.ts', 'test/docs.test.ts'], testTimeout: 60_000 } },
      {
        test: {
          name: 'system',
          include: ['test/{contracts,crash,cli,interop,damage,fuzz,browser}/**/*.test.ts'],
          testTimeout: 600_000,
          hookTimeout: 600_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
