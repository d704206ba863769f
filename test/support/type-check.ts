import { statSync } from 'node:fs';
import { join } from 'node:path';

import ts from 'typescript';

/**
 * Finds the errors that `npm run typecheck` finds in chosen files of a folder. The folder may change between two calls: only what has
 * changed is read again, so that a call after the first takes a second where the command takes half a minute.
 */
export class TypeCheck {
  private readonly service: ts.LanguageService;
  private settings: ts.ParsedCommandLine;
  private state = '';

  constructor(private readonly folder: string) {
    this.settings = this.readSettings();
    this.service = ts.createLanguageService({
      ...ts.sys,
      useCaseSensitiveFileNames: () => ts.sys.useCaseSensitiveFileNames,
      getCurrentDirectory: () => folder,
      getDefaultLibFileName: ts.getDefaultLibFilePath,
      getCompilationSettings: () => this.settings.options,
      getScriptFileNames: () => this.settings.fileNames,
      getProjectVersion: () => this.state,
      getScriptVersion: (file) => String(statSync(file, { throwIfNoEntry: false })?.mtimeMs),
      getScriptSnapshot: (file) => {
        const text = ts.sys.readFile(file);
        return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
      },
    });
  }

  /** Returns the errors in the files as the command prints them, or nothing. A `state` that was used before must mean the same content. */
  errorsIn(files: string[], state: string): string {
    this.settings = this.readSettings();
    this.state = state;
    const errors = files
      .map((file) => join(this.folder, file))
      .flatMap((file) => [...this.service.getSyntacticDiagnostics(file), ...this.service.getSemanticDiagnostics(file)]);
    const format = { getCurrentDirectory: () => this.folder, getCanonicalFileName: (name: string) => name, getNewLine: () => '\n' };
    return ts.formatDiagnostics(errors, format);
  }

  close(): void {
    this.service.dispose();
  }

  private readSettings(): ts.ParsedCommandLine {
    const { config } = ts.readConfigFile(join(this.folder, 'tsconfig.json'), (file) => ts.sys.readFile(file)) as { config: unknown };
    return ts.parseJsonConfigFileContent(config, ts.sys, this.folder);
  }
}
