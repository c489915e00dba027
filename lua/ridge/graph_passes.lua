-- SPDX-License-Identifier: MIT
--- Passes over graphs by name: those of the core and those written in Lua, names that stand for
--- several of them, and levels.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local options = require 'ridge.options'

local M = {}

local EXACTNESS = { [0] = 'exact', 'reassociates', 'changes training' }

-- Those of the core in their order, then those written in Lua; by name too.
local passes, by_name = {}, {}

local function add_pass(pass)
  if not by_name[pass.name] then passes[#passes + 1] = pass.name end
  by_name[pass.name] = pass
end

for index = 0, C.rg_pass_count() - 1 do
  local f = ffi.new 'rg_pass_facts'
  call.check(C.rg_pass_facts_of(index, f))
  add_pass { name = ffi.string(f.name), does = ffi.string(f.doc),
    exactness = EXACTNESS[f.exactness], core = true,
    run = function(graph) call.check(C.rg_graph_pass(graph._p, index)) end }
end

-- Names that others gave to what is a part of a pass here, or several passes; of no pass, where
-- graphs have nothing of it.
local STANDS_FOR = {
  fuse_activation = { 'epilogue_fusion' },
  fuse_dropout = { 'epilogue_fusion' },
  fuse_chain = { 'elementwise_fusion' },
  common_subexpressions = { 'common_subexpression_elimination' },
  assign_layout = { 'channels_last' },
  operator_fusion = { 'batch_norm_folding', 'fold_affine', 'epilogue_fusion',
    'elementwise_fusion' },
  -- of onnxoptimizer
  eliminate_deadend = { 'dead_code_elimination' },
  eliminate_identity = { 'arithmetic_identities', 'view_folding', 'dead_code_elimination' },
  eliminate_nop_dropout = {}, -- evaluation records none
  eliminate_nop_pad = { 'arithmetic_identities' },
  eliminate_nop_monotone_argmax = { 'argmax_folding', 'dead_code_elimination' },
  eliminate_nop_transpose = { 'view_folding', 'dead_code_elimination' },
  eliminate_unused_initializer = { 'dead_code_elimination' },
  extract_constant_to_initializer = { 'constant_folding' },
  fuse_add_bias_into_conv = { 'epilogue_fusion' },
  fuse_bn_into_conv = { 'batch_norm_folding' },
  fuse_consecutive_concats = { 'concat_folding' },
  fuse_consecutive_reduce_unsqueeze = { 'reduction_folding' },
  fuse_pad_into_conv = { 'pad_folding', 'dead_code_elimination' },
  fuse_consecutive_squeezes = { 'view_folding', 'dead_code_elimination' },
  fuse_consecutive_transposes = { 'view_folding', 'dead_code_elimination' },
  fuse_matmul_add_bias_into_gemm = { 'epilogue_fusion' },
  fuse_transpose_into_gemm = {}, -- products read strides as they are
}

local function copy_of_names()
  local copy = {}
  for name, list in pairs(STANDS_FOR) do copy[name] = { unpack(list) } end
  return copy
end

--- Names that stand for passes, with which.
---@return table by name: a list of names of passes
-- >> ridge.graph.aliases().fuse_bn_into_conv
function M.aliases()
  return copy_of_names()
end

local function is_cores(name)
  return STANDS_FOR[name] ~= nil or by_name[name] ~= nil and by_name[name].core
end

local PASS = {
  exactness = { 'string', choices = { 'exact', 'reassociates', 'changes training' },
    doc = 'what it does to results: the same bits, the same but for rounding, others' },
  does = { 'string', doc = 'a line for ridge.graph.passes()' },
}

--- Give a pass a name, for graph:optimize. A name is given anew by giving it again.
---@param name string
---@param f function that edits the graph it is called with
---@param opts table|nil {exactness = 'exact', does = 'a line'}
function M.pass(name, f, opts)
  if type(name) ~= 'string' or not blame.callable(f) then
    blame.raise(('graph.pass: a name and a function are expected, got %s and %s'):format(
      blame.show(name), blame.show(f)), 'EARG', 'graph')
  end
  if is_cores(name) then
    blame.raise(("graph.pass: '%s' is a pass of the core"):format(name), 'EARG', 'graph')
  end
  opts = options.check(PASS, opts or {}, 'graph.pass')
  add_pass { name = name, does = opts.does, exactness = opts.exactness, run = f }
end

--- All passes: those of the core in the order in which they are best run, then those in Lua.
---@return table[] passes {name =, exactness =, does =}: exactness is 'exact' (the same bits for
---  every input), 'reassociates' (but for rounding), 'changes training'; nil where nobody said it
-- >> ridge.graph.passes()[1].name
function M.passes()
  local list = {}
  for i, name in ipairs(passes) do
    local pass = by_name[name]
    list[i] = { name = name, exactness = pass.exactness, does = pass.does }
  end
  return list
end

local LEVELS = { standard = { exact = true }, aggressive = { exact = true, reassociates = true } }

--- The passes that a level or names stand for, in their order.
---@param names string[]|string
---@param what string the function asking, for errors
---@return string[] names of passes
function M.named(names, what)
  local list = {}
  local level = type(names) == 'string' and LEVELS[names]
  if level then
    for _, name in ipairs(passes) do
      if by_name[name].core and level[by_name[name].exactness] then list[#list + 1] = name end
    end
    return list
  end
  if type(names) ~= 'table' then
    local near = type(names) == 'string' and blame.near(names, { 'standard', 'aggressive' })
    blame.raise(('%s: a list of passes is expected, got %s%s'):format(what, blame.show(names),
      near and (" (did you mean '%s'?)"):format(near) or ''), 'EARG', 'graph')
  end
  for _, name in ipairs(options.list(names, what) or names) do
    if not by_name[name] and not STANDS_FOR[name] then
      local known = { unpack(passes) }
      for other in pairs(STANDS_FOR) do known[#known + 1] = other end
      local near = blame.near(name, known)
      blame.raise(('%s: there is no pass %s%s'):format(what, blame.show(name),
        near and (" (did you mean '%s'?)"):format(near) or ''), 'EARG', 'graph')
    end
    for _, one in ipairs(STANDS_FOR[name] or { name }) do list[#list + 1] = one end
  end
  return list
end

--- Do all of these passes keep every bit?
---@param names string[] as `named` gives them
---@return boolean
function M.are_exact(names)
  for _, name in ipairs(names) do
    if by_name[name].exactness ~= 'exact' then return false end
  end
  return true
end

local function run(pass, graph)
  pass.run(graph)
  if not pass.core then graph:check() end
end

--- Run one pass on a graph, which it edits.
---@param graph table
---@param name string
---@param what string in front of an error
function M.edit(graph, name, what)
  local ok, err = pcall(run, by_name[name], graph)
  if not ok then
    blame.raise(("%s: pass '%s': %s"):format(what, name,
      blame.is_error(err) and err.message or tostring(err)),
      blame.is_error(err) and err.code or 'EARG', 'graph')
  end
end

--- A copy of a graph on which passes have run.
---@param graph table
---@param names string[]|string
---@return table graph
function M.run(graph, names)
  local list = M.named(names, 'graph:optimize')
  local copy = graph:copy()
  for _, name in ipairs(list) do M.edit(copy, name, 'graph:optimize') end
  local made = copy:copy()
  made._optimized = { from = graph:copy(), names = list } -- it may be edited meanwhile
  return made
end

return M
