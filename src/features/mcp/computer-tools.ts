import { COMMAND_SECONDS, type Tool, WAIT_SECONDS } from './tool.ts';

const settling = { waits: true, next: 'wakeComputer' } as const;

/** The tools of computers. */
export const computerTools: readonly Tool[] = [
  { operationId: 'listComputers', title: 'List computers', effect: 'reads' },
  {
    operationId: 'createComputer',
    title: 'Make a computer',
    description:
      'Makes the computer of an end user, a desktop with a terminal and a browser, or returns the one that the end user has. One that sleeps is not woken.',
    effect: 'changes',
    isIdempotent: true,
    ...settling,
  },
  {
    operationId: 'getComputer',
    title: 'Show a computer',
    description: 'Returns a computer with its status and its settings.',
    effect: 'reads',
  },
  {
    operationId: 'updateComputer',
    title: 'Change the settings of a computer',
    description:
      'Changes the settings that are given. Size, display, egress and variables change at the next boot, which a sleep and a wake bring about.',
    effect: 'changes',
    isIdempotent: true,
  },
  {
    operationId: 'deleteComputer',
    title: 'Delete a computer',
    description: 'Deletes the computer with its container and all of its files. Nothing of it can be brought back.',
    effect: 'destroys',
    isIdempotent: true,
  },
  {
    operationId: 'wakeComputer',
    title: 'Wake a computer',
    description: 'Wakes the computer, and returns it once it shows its first picture. Every other tool that needs it awake wakes it, too.',
    effect: 'changes',
    isIdempotent: true,
    omits: ['wait'],
    ...settling,
  },
  {
    operationId: 'sleepComputer',
    title: 'Put a computer to sleep',
    description:
      'Puts the computer to sleep: its programs and windows end, its files stay. One that a person sees is put to sleep only with `force`.',
    effect: 'destroys',
    isIdempotent: true,
    waits: true,
    next: 'getComputer',
  },
  {
    operationId: 'actOnComputer',
    title: 'Click, type and look on a computer',
    description:
      "Does up to 50 actions in order on the computer's desktop, and returns what became of each, with the last picture that was asked for. " +
      'Wakes a sleeping computer. The keys ctrl+alt+t open a terminal, ctrl+alt+b a browser. All actions are checked before the first is done, and one that fails ends the batch. ' +
      `Ask for a picture at the end with \`screenshot\`. A batch that takes more than ${WAIT_SECONDS} s is given up.`,
    effect: 'destroys',
    result: 'actions',
  },
  {
    operationId: 'getComputerScreenshot',
    title: 'See what a computer shows',
    description: 'Returns a picture of what the computer shows. Wakes a sleeping computer.',
    effect: 'reads',
    result: 'image',
    omits: ['encoding'],
  },
  {
    operationId: 'runComputerCommand',
    title: 'Run a command on a computer',
    description: `Runs a command in the home folder of the computer, as the user of its desktop, and returns its output and exit code. Wakes a sleeping computer. A command that needs more than ${COMMAND_SECONDS} s is killed, and what a command started ends with it: open windows that are to stay with act_on_computer.`,
    effect: 'destroys',
    bounds: { timeout: COMMAND_SECONDS },
  },
  { operationId: 'listComputerFiles', title: 'List files of a computer', effect: 'reads' },
  {
    operationId: 'downloadComputerFile',
    title: 'Read a file of a computer',
    description:
      'Returns a text file of the computer, or the part of it that the range names, or a picture. A relative path begins in the home folder.',
    effect: 'reads',
    result: 'file',
  },
  {
    operationId: 'uploadComputerFile',
    title: 'Write a file of a computer',
    description: 'Writes a text file in the home folder of the computer, in whole or not at all. One that is there is replaced.',
    effect: 'destroys',
    isIdempotent: true,
  },
  {
    operationId: 'listComputerHistory',
    title: 'Show the history of a computer',
    description:
      'Lists the events of the computer, oldest first, even after it is deleted: what happened, when, and who did it. What was typed or seen is not in them.',
    effect: 'reads',
  },
  {
    operationId: 'openComputerViewer',
    title: 'Make a link for a person to a computer',
    description:
      'Makes a link with which a person sees or controls the computer in a browser, and wakes a sleeping computer. Whoever opens the link first needs nothing else: give it to nobody but the person.',
    effect: 'changes',
  },
  { operationId: 'listComputerSessions', title: 'List the links to a computer', effect: 'reads' },
  { operationId: 'closeComputerSessions', title: 'Close links to a computer', effect: 'destroys', isIdempotent: true },
  { operationId: 'getComputerUsage', title: 'Show the use of computers', effect: 'reads' },
];
