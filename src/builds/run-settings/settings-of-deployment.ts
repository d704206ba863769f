import { runSettingNames } from './run-setting-rules.ts';
import type { RunSettingName, RunSettings } from './run-settings.ts';

/** The places where an agent says how it is run, those that count more first. */
export interface SaidSettings {
  /** The agent's own settings, which its owner sets by the API. */
  own: RunSettings;
  /** The settings in the file mooring.json of its repository; empty if there is none. */
  file: RunSettings;
}

/** Returns the settings that count for a deployment: each from the first place that says it. */
export function settingsOf({ own, file }: SaidSettings): RunSettings {
  return Object.fromEntries(
    runSettingNames.flatMap((name) => {
      const value = own[name] ?? file[name] ?? null;
      return value === null ? [] : [[name, value]];
    }),
  );
}

/** Returns a line for the build log for each setting that is said, with its value and the place that says it. */
export function originLines({ own, file }: SaidSettings): string[] {
  return runSettingNames.flatMap((name) => {
    const line = originOf(name, own[name] ?? null, file[name] ?? null);
    return line === null ? [] : [line];
  });
}

function originOf(name: RunSettingName, own: unknown, file: unknown): string | null {
  if (own === null) return file === null ? null : `Setting ${name}: ${JSON.stringify(file)}, as mooring.json says`;
  const other = file === null || JSON.stringify(file) === JSON.stringify(own) ? '' : `; mooring.json says ${JSON.stringify(file)}`;
  return `Setting ${name}: ${JSON.stringify(own)}, as the agent's settings say${other}`;
}
