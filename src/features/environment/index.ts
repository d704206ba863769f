export { environmentEvents, type EnvironmentEvent } from './environment.events.ts';
export { environmentDecider, keyedVariables, keyProblem, type EnvironmentCommand, VARIABLES_MAX } from './environment.decider.ts';
export { ListVariables } from './environment.queries.ts';
export { toVariableDto, VariableDto } from './environment.dto.ts';
