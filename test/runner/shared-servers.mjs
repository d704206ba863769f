/** The state that global-setup.mjs leaves for global-teardown.mjs; both are loaded in the same process. */
export const shared = { stop: () => Promise.resolve() };
