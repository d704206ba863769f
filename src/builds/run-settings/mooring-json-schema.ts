import { MOORING_JSON, SCHEMA_MEMBER } from './mooring-json.ts';
import { runSettingNames, runSettingRules } from './run-setting-rules.ts';

/** The JSON Schema of the file mooring.json. */
export const mooringJsonSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: MOORING_JSON,
  description:
    'How an agent is built, run and reached: a file at the root of its repository. The settings of the agent itself override it.',
  type: 'object',
  properties: {
    [SCHEMA_MEMBER]: { type: 'string', description: 'The address of this schema.' },
    ...Object.fromEntries(runSettingNames.map((name) => [name, runSettingRules[name].schema])),
  },
  additionalProperties: false,
};
