import type { Type } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';

import { runSettingNames, runSettingProblem, runSettingRules } from '../../../builds/run-settings/run-setting-rules.ts';
import type { RunSettingName, RunSettings } from '../../../builds/run-settings/run-settings.ts';
import { type CamelCased, type Spelling, spelled } from '../../../kernel/text/spelling.ts';
import { OptionalField, validatedBy } from './agent-fields.ts';

/** The run settings as responses show them: null if the agent does not say one. */
export type ShownRunSettings = { [Name in RunSettingName]: Exclude<RunSettings[Name], undefined> };

/** Returns a class whose members are the run settings, each decorated. Subclasses are DTOs of requests and responses. */
function classOf<T>(spelling: Spelling, decorate: (name: RunSettingName) => PropertyDecorator[]): Type<T> {
  // oxlint-disable-next-line typescript/no-extraneous-class -- its members are made by the decorators
  class RunSettingMembers {}
  const { prototype } = RunSettingMembers;
  for (const name of runSettingNames) {
    const member = spelled(name, spelling);
    // The compiler gives each member that is written in a class its type, without which it can't be described.
    Reflect.defineMetadata('design:type', Object, prototype, member);
    decorate(name).forEach((decorator) => decorator(prototype, member));
  }
  return RunSettingMembers as Type<T>;
}

const shape = (name: RunSettingName, required: boolean): PropertyDecorator => {
  const { description, ...schema } = runSettingRules[name].schema;
  return ApiProperty({ required, description, oneOf: [schema, { type: 'null' }] });
};
/** Null takes a setting back. */
const accepted = (name: RunSettingName) => [
  OptionalField(),
  validatedBy('runSetting', (value) => runSettingProblem(name, value)),
  shape(name, false),
];
const shown = (name: RunSettingName) => [shape(name, true)];

/** The run settings in requests. */
export class RunSettingsDto extends classOf<RunSettings>('snake_case', accepted) {}
export class RestRunSettingsDto extends classOf<CamelCased<RunSettings>>('camelCase', accepted) {}

/** The run settings in responses. */
export class ShownRunSettingsDto extends classOf<ShownRunSettings>('snake_case', shown) {}
export class RestShownRunSettingsDto extends classOf<CamelCased<ShownRunSettings>>('camelCase', shown) {}

/** Returns the run settings among an agent's settings as responses show them. */
export function shownRunSettings(settings: RunSettings): ShownRunSettings {
  return Object.fromEntries(runSettingNames.map((name) => [name, settings[name] ?? null])) as ShownRunSettings;
}

/** Returns the run settings that a request says. */
export function saidRunSettings(request: RunSettings): RunSettings {
  return Object.fromEntries(runSettingNames.flatMap((name) => (request[name] == null ? [] : [[name, request[name]]])));
}
