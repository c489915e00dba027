-- SPDX-License-Identifier: MIT
--- What there is to try against what was found, each with what measures it here: one list, for
--- bottlenecks and for ridge.advise.

local M = {}

--- By name: what, and what measures it.
M.ALL = {
  plan = { 'run it as a plan: ridge.capture(step), or compile = true of a Trainer',
    'ridge.profile(function() plan:run(100) end).ns / 100 of plan = ridge.capture(step)' },
  other_modes = { "the modes that are left: ridge.compile(f, { mode = 'auto' }), which says why",
    'f:report() of what it returns' },
  batch = { 'larger batches: as many calls for more rows',
    "ridge batch-size 'mlp{784,128,10}' --kind throughput" },
  library = { 'the library that multiplies fastest here', 'ridge.autotune(step)' },
  bf16 = { "products in bf16: ridge.autocast('bf16', step)", 'ridge recipes/amp.lua' },
  one_pass = { 'elementwise operations in one pass over memory: ridge.capture(step)',
    'ridge.profile(function() plan:run() end) of plan = ridge.capture(step)' },
  half_bytes = { 'half the bytes: weights and inputs in bf16',
    "ridge.profile of it with net:to 'bf16'" },
  threads_ahead = {
    'threads that gather ahead: ridge.data.Loader(sources, { workers = 2, prefetch = 4 })',
    'p.sections of ridge.profile, data_loading before and after' },
  read_later = {
    'read results of a device later: each :item(), :tolist() and print waits for it',
    'ridge.timeline(step)' },
  other_library = { 'another library for its products, if these are what it does',
    'ridge.autotune(step)' },
  first_calls = { 'leave out the first calls, which find memory and wake threads',
    'ridge.profile(step, { num_steps = 30, warmup = 10, active = 20 })' },
  quiet = { 'a quiet machine', 'ridge doctor' },
  ceilings = { 'ceilings of this machine, which tell whether arithmetic or memory bounds it',
    "ridge calibrate --quick, or ridge.profile(f, { roof = 'measured' })" },
  -- of memory
  smaller_batch = { 'a smaller batch',
    'net:analyze(x):what_if { batch = { 8, 16, 32 }, measure = true }' },
  accumulate = { 'as many rows in a step, in parts: accumulate = 4 of a Trainer',
    'ridge.memory.peak_of(step) of both; ridge recipes/levels.lua' },
  recompute = { 'keep the inputs of blocks alone: net:recompute(n), recompute = true of a Trainer',
    'net:analyze(x):what_if { recompute = true, measure = true }; ridge recipes/recompute.lua' },
  split = { 'batches in parts when memory does not suffice: split = true of a Trainer',
    'peak_bytes of the rows of Trainer:fit, with and without' },
  trim = { 'collect and give back: trim_every = 100 of a Trainer, ridge.memory.trim()',
    'trimmed_bytes of the rows of Trainer:fit; ridge.memory.stats().cached' },
  alarm = { 'an alarm that collects, trims and says so: ridge.memory.alarm(8000)',
    'alarm.rang and alarm.freed' },
  watch = { "watch it: monitor = ridge.monitor { tensorboard = 'runs/one' } of a Trainer",
    'ridge watch runs/one' },
  leaks = { 'look for what steps leave behind', 'ridge.memory.leaks(step)' },
  -- of training
  clean_batch = { 'leave out or replace what is not finite where the data is read',
    "x:isfinite():to('f64'):min():item() of every batch is 1" },
  begin_anew = { 'begin again, from the last checkpoint that is finite or from the start',
    'trainer.curve: its losses are finite' },
  smaller_rate = { 'a smaller learning rate, or clip = 1 of a Trainer',
    'trainer.curve of both; ridge recipes/train_mlp.lua --lr 1e-4' },
  schedule = { 'a schedule: ridge.optim.CosineLR(optimizer, { steps =, warmup = })',
    'val_loss of the rows of Trainer:fit, with and without' },
  larger_step = { 'more rows in a step: a larger batch, or accumulate',
    'ridge.advise says the noise scale again; val_loss of the rows of Trainer:fit at equal rows' },
  smaller_scale = { 'a smaller scale: ridge.optim.GradScaler { scale = 2^10 }',
    'scaler.skipped behind as many steps' },
  scaler = { 'f16 with a scale: scaler = ridge.optim.GradScaler(), or bf16, which needs none',
    'ridge.anomaly(step); the losses of trainer.curve' },
  anomaly = { 'the operation that makes the first nan', 'ridge.anomaly(step)' },
  cheaper_optimizer = { 'an optimizer with less to read and write: ridge.optim.Lion, SGD',
    'p.sections of ridge.profile, optimizer_step of both' },
  -- of the machine
  device = { "the GPU: net:to 'cuda:0', device = 'cuda:0' of a Trainer",
    'ridge bench MODEL --device cuda:0; ridge doctor' },
  threads = { 'all processors: ridge.set_num_threads(n), and no lower OMP_NUM_THREADS',
    'ridge plot threads of a sweep over threads' },
  instructions = { "all instructions: ridge.backend.set_isa of the machine's best",
    'ridge doctor; ridge.backend.now().isa' },
  data_parallel = { 'a batch over several GPUs: ridge.nn.DataParallel(net, { devices = ... })',
    'rows_per_s of the rows of Trainer:fit, with one and with several' },
  rows_of_files = { 'rows that stay in files: ridge.data.rows',
    'ridge.memory.stats().live; p.sections of ridge.profile, data_loading' },
  pad = { 'sizes that are multiples of 8: ridge.nn.round_for_tensor_cores',
    'ridge plot steps of a sweep over the size' },
  clones = { 'fewer copies: work in place (x:add_(y)), views that are read where they lie',
    "p:table { by = 'call' } of ridge.profile" },
  keep_there = { "bring it once: loaders with device = 'cuda:0', parameters that stay",
    'ridge.timeline(step)' },
  bytes = { 'weights and rows in 8 bits: q = ridge.quant.dynamic(net)',
    'ridge.quant.compare(net, q, { shape = sizes, test = test }): its speed, its accuracy; '
    .. 'ridge recipes/quant.lua' },
  observed = { 'ranges observed over more batches, or bf16: q = ridge.quant.static(net, '
    .. '{ calibrate = loader })',
    'ridge.quant.compare(net, q, { shape = sizes, test = test }); ridge recipes/quant.lua' },
  smaller_net = { 'a smaller net that learns from this one: ridge.nn.distillation_loss; layers of '
    .. 'low rank, sketched ones; units that are cut off: ridge.prune.shrink',
    'ridge recipes/distill.lua; ridge recipes/landscape.lua; the report of ridge.prune.shrink' },
}

--- What bounds something, in words.
M.REASONS = { compute = 'arithmetic', bandwidth = 'memory', launch = 'calling',
  data = 'waiting for data', waiting = 'waiting', path = 'neither arithmetic nor memory',
  unknown = 'what is not known' }

local BY_REASON = {
  launch = { 'plan', 'batch' }, compute = { 'library', 'bf16' },
  bandwidth = { 'one_pass', 'half_bytes' }, data = { 'threads_ahead' }, waiting = { 'read_later' },
  path = { 'other_library', 'first_calls', 'quiet' }, unknown = { 'ceilings' },
}

--- What to try, by names.
---@param ... string names
---@return table list of { what, measure }
function M.list(...)
  local list = {}
  for i = 1, select('#', ...) do
    local found = M.ALL[select(i, ...)]
    list[i] = { what = found[1], measure = found[2] }
  end
  return list
end

--- What to try against what bounds something.
---@param reason string launch, compute, bandwidth, data, waiting, path, unknown
---@return table list of { what, measure }
function M.of(reason) return M.list(unpack(BY_REASON[reason])) end

return M
