/** The state that global-setup.ts leaves for global-teardown.ts; both are loaded in the same process. */
export const shared: { stop: () => Promise<void> } = { stop: () => Promise.resolve() };
