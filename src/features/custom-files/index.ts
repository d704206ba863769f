export { absoluteOf, isWithin } from './custom-file-places.decider.ts';
export { isScript, type CustomFile } from './custom-files.decider.ts';
export { customFileEvents } from './custom-files.events.ts';
