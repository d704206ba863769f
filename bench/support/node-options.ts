/** The Node options of the measured service, such as `--cpu-prof`, separated by spaces in `BENCH_NODE_OPTIONS`; by default none. */
export const nodeOptions = process.env.BENCH_NODE_OPTIONS?.split(' ') ?? [];
