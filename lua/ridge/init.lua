-- SPDX-License-Identifier: MIT
--- ridge: find where neural networks run fast, and tell the truth about it.
--
-- This module is the namespace users type; what it names is loaded when it is first used.

require 'ridge.pairs'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
require 'ridge.tensor'
local make = require 'ridge.tensor.make'
local ops = require 'ridge.tensor.ops'
local grad = require 'ridge.tensor.grad'
local random = require 'ridge.random'
local state = require 'ridge.state'
local late = require 'ridge.late'
local memory = require 'ridge.memory'
local backend = require 'ridge.backend'
local device = require 'ridge.device'

local M = {
  tensor = make.tensor, empty = make.empty, zeros = make.zeros, ones = make.ones,
  full = make.full, arange = make.arange, rand = make.rand, randn = make.randn,
  randint = make.randint, concat = ops.concat,
  where = require('ridge.tensor.choose').where, eye = make.eye, linspace = make.linspace,
  one_hot = require('ridge.tensor.composed').one_hot,
  seed = random.seed, generator = random.generator,
  scope = memory.scope, keep = memory.keep,
  set_num_threads = backend.set_threads, num_threads = backend.threads,
  set_default_backend = backend.set_default, set_default_device = device.set_default,
  is_tensor = require('ridge.tensor').is,
  no_grad = grad.no_grad, inference = require('ridge.tensor.mode').inference,
  enable_grad = grad.enable_grad, grad_stats = grad.stats,
  grad_saved = grad.saved,
}

--- Name of the submodule, or {module, field}, behind a name that is loaded late.
local LATE = {
  memory = 'ridge.memory', backend = 'ridge.backend', types = 'ridge.types', nn = 'ridge.nn',
  optim = 'ridge.optim', data = 'ridge.data', graph = 'ridge.graph', device = 'ridge.device',
  dist = 'ridge.dist', onnx = 'ridge.onnx', prune = 'ridge.prune', quant = 'ridge.quant',
  smaller = { 'ridge.smaller', 'smaller' },
  capture = { 'ridge.capture', 'capture' }, used = { 'ridge.graph_record', 'used' },
  compile = { 'ridge.compile', 'compile' },
  timeline = { 'ridge.timeline', 'record' },
  clear_output = { 'ridge.show.clear', 'clear_output' },
  str = { 'ridge.repl.structure', 'str' }, summary = { 'ridge.repl.structure', 'summary' },
  save = { 'ridge.train.file', 'save' }, load = { 'ridge.train.file', 'load' },
  peek = { 'ridge.data.peek', 'peek' },
  Trainer = { 'ridge.train.trainer', 'Trainer' },
  Stability = { 'ridge.train.stability', 'Stability' },
  optimize_training = { 'ridge.train.optimize', 'optimize_training' },
  level = { 'ridge.train.level', 'apply' }, profiles = { 'ridge.train.level', 'profile' },
  Function = { 'ridge.tensor.function', 'Function' }, hook = { 'ridge.tensor.function', 'hook' },
  grad = { 'ridge.tensor.function', 'grad' },
  einsum = { 'ridge.tensor.einsum', 'einsum' },
  quantize = { 'ridge.tensor.quantize', 'quantize' },
  dequantize = { 'ridge.tensor.quantize', 'dequantize' },
  quantize_rows = { 'ridge.tensor.quantize', 'quantize_rows' },
  pack_bits = { 'ridge.tensor.packed', 'pack_bits' },
  unpack_bits = { 'ridge.tensor.packed', 'unpack_bits' },
  packed_linear = { 'ridge.tensor.packed', 'packed_linear' },
  sparse = { 'ridge.tensor.sparse', 'sparse' },
  sparse_linear = { 'ridge.tensor.sparse', 'sparse_linear' },
  scaled_add = { 'ridge.tensor.bytes', 'scaled_add' },
  scaled_pool2d = { 'ridge.tensor.bytes', 'scaled_pool2d' },
  scaled_linear = { 'ridge.tensor.scaled', 'scaled_linear' },
  scaled_conv2d = { 'ridge.tensor.scaled', 'scaled_conv2d' },
  all_reduce_ = { 'ridge.tensor.collective', 'all_reduce_' },
  recompute = { 'ridge.tensor.recompute', 'recompute' },
  anomaly = { 'ridge.tensor.anomaly', 'anomaly' },
  profile = { 'ridge.profile', 'profile' }, autotune = { 'ridge.choices', 'autotune' },
  last_profile = { 'ridge.profile', 'last' }, advise = { 'ridge.advise', 'advise' },
  monitor = { 'ridge.monitor', 'Monitor' }, timer = { 'ridge.monitor.timer', 'Timer' },
  available = { 'ridge.monitor.available', 'available' },
  tensorboard = { 'ridge.tensorboard', 'Writer' },
  profile_names = { 'ridge.profile', 'names' }, profile_range = { 'ridge.profile', 'range' },
  measure = 'ridge.measure', bench = 'ridge.bench', plot = 'ridge.plot', store = 'ridge.store',
  sweep = { 'ridge.sweep', 'sweep' }, open = { 'ridge.sweep', 'open' },
  args = { 'ridge.cli.args', 'parse' },
  compare = { 'ridge.sweep', 'compare' }, calibrate = { 'ridge.sweep.calibrated', 'measure' },
  query = { 'ridge.store.ask', 'query' }, sql = { 'ridge.store.ask', 'sql' },
  sweeps = { 'ridge.store.ask', 'sweeps' }, merge = { 'ridge.store.ask', 'merge' },
  range = { 'ridge.sweep.space', 'range' }, geom = { 'ridge.sweep.space', 'geom' },
  between = { 'ridge.sweep.space', 'between' }, logs = { 'ridge.sweep.space', 'logs' },
  probe = { 'ridge.sweep.space', 'probe' }, random = { 'ridge.sweep.space', 'random' },
  any = { 'ridge.sweep.space', 'any' }, when = { 'ridge.sweep.space', 'when' },
}
for _, name in ipairs { 'top', 'best', 'show', 'retry', 'export', 'watch', 'replay', 'db', 'replot',
                        'doctor', 'note', 'report' } do
  LATE[name] = { 'ridge.cli.call', name }
end

local AUTOCAST = state.exchange(C.rg_autocast_set)

--- Compute in a smaller type inside a function: products convert their f32 inputs.
---@param dtype string 'bf16' or 'f16'
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.autocast(dtype, f, ...)
  local code = require('ridge.tensor.dtype').code(dtype, 'autocast')
  if code ~= C.RG_BF16 and code ~= C.RG_F16 then
    blame.raise(("autocast: '%s' is not a smaller type; known: bf16, f16"):format(dtype))
  end
  if not blame.callable(f) then blame.raise('autocast: a function is expected, got ' .. type(f)) end
  return state.with(AUTOCAST, { value = code }, f, ...)
end

--- Seconds on a clock that only goes forward.
---@return number s
function M.clock()
  return tonumber(C.rg_clock_ns()) / 1e9
end

--- The version of ridge.
---@return string
function M.version()
  return require('ffi').string(C.rg_version())
end

--- Is a stop asked for (Ctrl-C)?  A recipe that looks at this can finish what it is at and save.
--- Of several ranks, one that never looks ends at its next collective, with status 130.
---@return boolean
function M.stopping()
  local worlds = package.loaded['ridge.world']
  if worlds then worlds.look_for_stop(true) end
  local host = package.loaded['ridge.host']
  return host and host.stopping and host.stopping() or C.rg_interrupt_pending() == 1
end

guard.docs = { 'ridge.repl.help', 'entry_of' }
late.above.unlike = 'ridge.sweep.unlike'
late.above.ablate = { 'ridge.compile.ablate', 'ablate' }
late.above.save_model = { 'ridge.model_file', 'save' }
late.above.graph_int8 = 'ridge.quant.graph'
late.above.int8 = { { 'ridge.quant.static', 'static' }, { 'ridge.quant.dynamic', 'dynamic' } }
late.above.analyze = { 'ridge.analyze', 'analyze' }

return late.namespace(M, LATE, 'ridge')
