export { environmentEvents, type EnvironmentEvent } from './environment.events.ts';
export { environmentDecider, keyProblem, valueProblem, VARIABLES_MAX } from './environment.decider.ts';
export { EnvironmentModule } from './environment.module.ts';
export { Variables } from './variables.service.ts';
