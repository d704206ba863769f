export { environmentEvents, type EnvironmentEvent } from './environment.events.ts';
export { environmentDecider, keyedVariables, keyProblem, valueProblem, VARIABLES_MAX } from './environment.decider.ts';
export { variableView, VariableView } from './environment.dto.ts';
