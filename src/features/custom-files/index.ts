export { absolutePathOf as absoluteOf, isWithin } from './file-locations.rules.ts';
export { isScript, type CustomFile } from './custom-files.decider.ts';
export { customFileEvents } from './custom-files.events.ts';
