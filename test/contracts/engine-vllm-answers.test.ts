import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it } from 'vitest';
import type { Scenario } from '../support/wire-server.ts';
import { type Case, checkCase, status, usePlace } from './engine-vllm.cases.ts';

const place = usePlace();

/** Answers with a path made from the honest one. */
const naming =
  (path: (honestPath: string) => string): Scenario =>
  async (call) => {
    call.answer({ parameters: { hidden_states_path: path(call.path) } });
  };

/** The foreign file beside the staging folder. */
const outsideOf = (path: string): string => join(dirname(dirname(path)), 'outside.safetensors');

const answers: readonly Case[] = [
  {
    name: 'other ids echoed',
    scenario: async (call) => {
      await call.lock();
      await call.publish(call.file());
      call.answer({ echo: call.ids.map((id, at) => (at === 3 ? id + 1 : id)) });
    },
    code: 'capture-bad',
    message: /echoed ids differ.*position 3 "110" came back for 109/,
    hint: /proxy|truncation/,
    retry: 'later',
  },
  {
    name: 'fewer ids echoed',
    scenario: async (call) => {
      await call.publish(call.file());
      call.answer({ echo: call.ids.slice(0, 30) });
    },
    code: 'capture-bad',
    message: /echoed ids differ.*30 came back of 40/,
    hint: /truncation/,
    retry: 'later',
  },
  {
    name: 'no echo at all',
    scenario: async (call) => {
      await call.publish(call.file());
      call.answer({ echo: null });
    },
    code: 'engine-protocol',
    message: /did not echo choices\[0\]\.prompt_token_ids/,
    hint: /0\.22/,
  },
  {
    name: 'no kv_transfer_params',
    scenario: async (call) => call.answer({ parameters: null }),
    code: 'engine-protocol',
    message: /no kv_transfer_params\.hidden_states_path; the answer has id, object, choices/,
    hint: /extract_hidden_states.*ExampleHiddenStatesConnector/,
  },
  {
    name: "another connector's keys",
    scenario: async (call) => call.answer({ parameters: { handle: 'x', hs_req_id: 'y' } }),
    code: 'engine-protocol',
    message: /kv_transfer_params has handle, hs_req_id/,
    hint: /ExampleHiddenStatesConnector/,
  },
  {
    name: 'too long a prompt (400)',
    scenario: status(400, '{"error":{"message":"This model\'s maximum context length is 32 tokens.","code":400}}'),
    code: 'engine-refused',
    message: /answered 400: This model's maximum context length is 32 tokens/,
    hint: /--max-model-len/,
  },
  {
    name: '422 of the framework',
    scenario: status(422, '{"detail":[{"msg":"bad"}]}'),
    code: 'engine-refused',
    message: /422: \[\{"msg":"bad"/,
    hint: /row/,
  },
  { name: '404', scenario: status(404, '{"detail":"Not Found"}'), code: 'engine-protocol', message: /404: Not Found/, hint: /address/ },
  { name: '401', scenario: status(401, '{"error":"Unauthorized"}'), code: 'engine-protocol', message: /401/, hint: /--api-key/ },
  { name: '429', scenario: status(429, ''), code: 'engine-busy', message: /answered 429$/, hint: /inFlight/, retry: 'later' },
  {
    name: '503',
    scenario: status(503, '{"error":{"message":"queue is full"}}'),
    code: 'engine-busy',
    message: /queue is full/,
    hint: /inFlight/,
    retry: 'later',
  },
  {
    name: '500',
    scenario: status(500, '{"error":{"message":"EngineDeadError\\n\\u001b[31mred"}}'),
    code: 'engine-unreachable',
    message: /500: EngineDeadError \[31mred$/,
    hint: /log/,
    retry: 'later',
  },
  { name: 'a redirect', scenario: status(302, ''), code: 'engine-protocol', message: /302/, hint: /proxy/ },
  {
    name: 'no JSON',
    scenario: status(200, '<html>welcome</html>'),
    code: 'engine-protocol',
    message: /not JSON.*<html>/,
    hint: /proxy|web page/,
  },
  {
    name: 'JSON of another kind',
    scenario: status(200, '[1,2]'),
    code: 'engine-protocol',
    message: /no kv_transfer_params/,
    hint: /speculative-config/,
  },
  {
    name: 'a huge body',
    scenario: status(200, `"${'x'.repeat(2 << 20)}"`),
    code: 'engine-protocol',
    message: /at most \d+ are accepted/,
    hint: /proxy/,
  },
  {
    name: 'a dropped connection',
    scenario: async (call) => call.drop(),
    code: 'engine-unreachable',
    message: /connection/,
    hint: /curl/,
    retry: 'later',
  },
  {
    name: 'no answer',
    scenario: (call) => call.hang(),
    code: 'engine-timeout',
    message: /no complete answer within/,
    hint: /server log.*\/health can say 200/,
    retry: 'later',
    waits: true,
  },
];

const paths: readonly Case[] = [
  {
    name: 'a path elsewhere',
    scenario: naming(outsideOf),
    code: 'engine-protocol',
    message: /outside of the staging folder/,
    hint: /engine\.staging/,
  },
  {
    name: 'a path that climbs out',
    scenario: naming((path) => `${dirname(path)}/../outside.safetensors`),
    code: 'engine-protocol',
    message: /climbs with \.\./,
    hint: /trusted/,
  },
  {
    name: 'a relative path',
    scenario: naming(() => 'outside.safetensors'),
    code: 'engine-protocol',
    message: /not absolute/,
    hint: /trusted/,
  },
  {
    name: 'a path with a NUL',
    scenario: naming((path) => `${path}\0.safetensors`),
    code: 'engine-protocol',
    message: /control characters/,
    hint: /trusted/,
  },
  {
    name: 'an endless path',
    scenario: naming((path) => `/${'a/'.repeat(4000)}${path}`),
    code: 'engine-protocol',
    message: /\d{4} characters/,
    hint: /trusted/,
  },
  {
    name: 'another kind of file',
    scenario: naming((path) => `${path}.lock`),
    code: 'engine-protocol',
    message: /end in \.safetensors/,
    hint: /trusted/,
  },
  {
    name: 'a folder that is not here',
    scenario: naming(() => '/dev/shm/no-such-folder-of-tidemark/x.safetensors'),
    code: 'engine-protocol',
    message: /folder does not exist on this machine/,
    hint: /shared_storage_path/,
  },
  {
    name: "another request's file",
    scenario: async (call) => {
      const other = call.path.replace(call.requestId, 'tm-8-1-0123abcd');
      await call.publish(call.file(), other);
      call.answer({ parameters: { hidden_states_path: other } });
    },
    code: 'engine-protocol',
    message: /file of another request \(tm-8-1-0123abcd/,
    hint: /restart/,
    left: 1,
  },
  {
    name: 'a link under the right name',
    scenario: async (call) => {
      await symlink(outsideOf(call.path), call.path);
      call.answer();
    },
    code: 'engine-protocol',
    message: /it is a link; it was neither read nor deleted/,
    hint: /trusted/,
    left: 1,
  },
  {
    name: 'a linked folder that leads out',
    scenario: async (call) => {
      await mkdir(join(place().folder, 'far'));
      await symlink(join(place().folder, 'far'), join(dirname(call.path), 'near'));
      await writeFile(join(place().folder, 'far', 'a.safetensors'), 'x');
      call.answer({ parameters: { hidden_states_path: join(dirname(call.path), 'near', 'a.safetensors') } });
    },
    code: 'engine-protocol',
    message: /outside of the staging folder/,
    hint: /engine\.staging/,
    left: 1,
  },
  {
    name: 'a folder under the right name',
    scenario: async (call) => {
      await mkdir(call.path);
      call.answer();
    },
    code: 'engine-protocol',
    message: /it is a directory/,
    hint: /trusted/,
    left: 1,
  },
  {
    name: 'an unnamed file with other ids',
    scenario: async (call) => {
      const path = join(dirname(call.path), 'weights-00001.safetensors');
      await call.publish(call.file({ ids: call.ids.map((id) => id + 1) }), path);
      call.answer({ parameters: { hidden_states_path: path } });
    },
    code: 'capture-bad',
    message: /stored ids differ/,
    hint: /restart/,
    retry: 'later',
    left: 1,
  },
];

describe('odd answers', () => {
  it.each(answers)('$name', (one) => checkCase(place(), one));
});

describe('paths that the server names', () => {
  it.each(paths)('$name', (one) => checkCase(place(), one));
});
