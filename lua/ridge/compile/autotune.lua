-- SPDX-License-Identifier: MIT
--- Mode max-autotune: paths of products are measured (ridge.autotune), then each pass that changes
--- how something is computed, not whether it is, is left out in turn, and stays out where that is
--- faster; then, one kind of node after the other, convolutions have channels first or last,
--- activations stand apart from their product, and links of fused chains are calls by themselves.
--- What was found counts for the same graph, and the
--- same kind of node, again, in the table of choices that ridge.backend.save_choices keeps.

local blame = require 'ridge.blame'
local apart = require 'ridge.compile.apart'
local chains = require 'ridge.compile.chains'
local canonical = require 'ridge.store.canonical'
local choices = require 'ridge.plan_choices'
local entry = require 'ridge.compile.entry'
local layouts = require 'ridge.compile.layouts'
local timing = require 'ridge.compile.timing'
local trial = require 'ridge.graph_trial'

local M = {}

-- A plan without a pass has to take this part of the time to be taken: what is less is noise.
local FASTER = 0.97

-- Layouts, chains, epilogues: what another way to compute the same is about.
local CHOICES = { 'channels_last', 'elementwise_fusion', 'epilogue_fusion', 'batch_norm_folding',
  'fold_affine' }
local ALL = 'all'

-- The lines of nodes in Lua's files are no part of what is computed.
local function problem_of(r, names)
  local text = ('%s\n%s'):format(table.concat(names, ' '),
    (tostring(r.graph):gsub(' *;[^\n]*', '')))
  local address = canonical.hash(text):sub(1, 8):gsub('.', function(c)
    return ('%02x'):format(c:byte())
  end)
  return choices.problem(('%d nodes %s'):format(#r.graph:nodes(), address))
end

local function without(names, left_out)
  local list = {}
  for _, other in ipairs(names) do
    if not left_out[other] then list[#list + 1] = other end
  end
  return list
end

local function set_of(words)
  local set = {}
  for word in words:gmatch '[^,]+' do set[word] = true end
  return set
end

-- 'all', or 'without epilogue_fusion,fold_affine'.
local function path_of(left_out)
  local list = {}
  for _, name in ipairs(CHOICES) do
    if left_out[name] then list[#list + 1] = name end
  end
  return #list == 0 and ALL or 'without ' .. table.concat(list, ',')
end

-- What a path that somebody kept leaves out; nil where it is none.
local function left_out_of(path)
  if path == ALL then return {} end
  local set = set_of(path:match '^without ([%w_,]+)$' or '')
  return path == path_of(set) and next(set) and set or nil
end

-- Another way, where it is faster; ms of the best one and of that.
local function faster_than(r, best, names, options, edit)
  local ok, other = pcall(entry.make, r, names, options.tolerance, edit)
  if not ok then
    blame.pass_interrupt(other)
    return nil
  end
  local ms = timing.medians { options.runner(best.plan), options.runner(other.plan) }
  trial.restore(r.saved)
  if ms[2] < FASTER * ms[1] then return other, ms end
  other.plan:release()
  return nil, ms
end

-- Does a pass change the graph at all?
local function matters(r, name)
  return not r.graph:optimize { name }:same(r.graph)
end

-- What a graph computes, but for marks: how images lie stands in the arguments of its calls.
local function shown(graph)
  local words = {}
  for i, node in ipairs(graph:nodes()) do
    words[i] = ('%s %s'):format(node.op, node.args.layout or '')
  end
  return table.concat(words, '\n')
end

-- What is known of single nodes, and what is tried of them besides.
local function edit(more)
  more = more or {}
  local of_epilogues, of_chains = apart.edit(more.epilogue), chains.edit(more.chain)
  return { before = { [layouts.PASS] = layouts.marks(more.layout) }, behind = function(graph)
    of_epilogues(graph)
    of_chains(graph)
  end }
end

local function tune_passes(r, names, options, best)
  local left_out, times = {}, {}
  for _, name in ipairs(CHOICES) do
    local trying = { [name] = true }
    for other in pairs(left_out) do trying[other] = true end
    local fewer = without(names, trying)
    if #fewer < #best.names and matters(r, name) then
      local other, ms = faster_than(r, best, fewer, options, edit())
      if ms then
        times[path_of(left_out)] = times[path_of(left_out)] or ms[1]
        times[path_of(trying)] = ms[2]
      end
      if other then
        best.plan:release()
        best, left_out = other, trying
      end
    end
  end
  choices.put('passes', problem_of(r, names), path_of(left_out), ALL, times, timing.ROUNDS)
  return best
end

-- The passes in front of one; nil where it is none of them.
local function in_front_of(names, pass)
  local list = {}
  for _, name in ipairs(names) do
    if name == pass then return list end
    list[#list + 1] = name
  end
end

-- How images lie in one kind of convolution after the other, where a wish changes anything.
local function tune_layouts(r, options, best)
  local list = in_front_of(best.names, layouts.PASS)
  if not list then return best end
  local front = r.graph:optimize(list)
  local function behind(more)
    local graph = front:copy()
    layouts.marks(more)(graph)
    return graph:optimize { layouts.PASS }
  end
  for _, kind in ipairs(layouts.kinds(front)) do
    local problem = choices.problem(kind)
    local chosen, times = layouts.FOUND, {}
    for _, wish in ipairs(choices.get('layout', problem) and {} or layouts.WISHES) do
      local more = { [kind] = wish }
      if shown(behind(more)) ~= shown(behind()) then
        local other, ms = faster_than(r, best, best.names, options, edit { layout = more })
        if ms then times[layouts.FOUND], times[wish] = ms[1], ms[2] end
        if other then
          best.plan:release()
          best, chosen = other, wish
          break
        end
      end
    end
    if next(times) then
      choices.put('layout', problem, chosen, layouts.FOUND, times, timing.ROUNDS)
    end
  end
  return best
end

-- One kind of node after the other; what is known is not measured again.
local function tune_nodes(r, options, best, operation, kinds)
  local graph = entry.optimized(r.graph, best.names, { before = edit().before })
  for _, kind in ipairs(kinds(graph)) do
    local problem = choices.problem(kind)
    if not choices.get(operation, problem) then
      local other, ms = faster_than(r, best, best.names, options,
        edit { [operation] = { [kind] = true } })
      if ms then
        choices.put(operation, problem, other and 'apart' or 'joined', 'joined',
          { joined = ms[1], apart = ms[2] }, timing.ROUNDS)
      end
      if other then
        best.plan:release()
        best = other
      end
    end
  end
  return best
end

--- The best plan of a recording that was found.
---@param r table of ridge.compile.entry
---@param names string[] passes to choose from
---@param options table {tolerance, runner = function of a plan: a function that runs it once and
---  waits for its device}
---@return table made as entry.make gives it, with tuned_ms where something was measured
function M.make(r, names, options)
  local path = choices.get('passes', problem_of(r, names))
  local left_out = path and left_out_of(path)
  if left_out then
    return entry.make(r, without(names, left_out), options.tolerance, edit())
  end
  local ms, best = timing.once(function()
    local made = entry.make(r, names, options.tolerance, edit())
    require('ridge.choices').autotune(function() made.plan:run() end)
    trial.restore(r.saved)
    made.plan:release() -- it has chosen its paths
    made = entry.make(r, names, options.tolerance, edit())
    made = tune_passes(r, names, options, made)
    made = tune_layouts(r, options, made)
    made = tune_nodes(r, options, made, 'epilogue', apart.kinds)
    return tune_nodes(r, options, made, 'chain', chains.kinds)
  end)
  best.tuned_ms = ms
  return best
end

return M
