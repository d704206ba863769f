/** Lists what each saga does at a due time, and the events that record it. */
export const timers: Record<string, Record<string, readonly string[]>> = {
  deployments: {
    'a deployment takes too long': ['DeploymentFailed'],
    'a start, a restart or a wake takes too long': ['AgentFailed'],
    'a stop takes too long: it is killed': ['AgentStopped'],
    'a crashed container is made again after its back-off': ['AgentStarted'],
    'an idle agent sleeps': ['AgentSleepRequested', 'AgentSlept'],
    'an agent that sleeps for long sleeps deeper': ['AgentSleepRequested', 'AgentSlept'],
  },
  computers: {
    'a creation or a wake takes too long': ['ComputerFailed'],
    'a crashed container is made again after its back-off': ['ComputerWoke'],
    'an idle computer sleeps': ['ComputerSleepRequested', 'ComputerSlept'],
    'a computer that sleeps for long sleeps deeper': ['ComputerSleepRequested', 'ComputerSlept'],
  },
  messages: { 'a delivery is tried again': ['DeliveryFailed', 'MessageDelivered', 'MessageDeadLettered'] },
  subscriptions: { 'an event is sent again': ['EventDeadLettered', 'SubscriptionSwitchedOff'] },
  seats: { 'no agent came for a seat': ['SeatReleased'] },
  'api-keys': { 'a key comes to its end': ['ApiKeyExpired'] },
  logs: {},
  commands: { 'a command did not come to its container in time': ['AgentCommandEnded'] },
  viewers: { 'a link to a computer expires': ['ViewerClosed'] },
  'viewer-keys': {},
  images: {},
  volumes: { 'an agent whose volume is too full stops': ['AgentFailed', 'DeploymentFailed'] },
  'master-key': { 'a rotation goes on when every replica has the new key': ['MasterKeyRotated'] },
  'output-retention': { 'the output of an agent that was deleted is removed': ['LogLinesCaptured'] },
};
