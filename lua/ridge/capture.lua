-- SPDX-License-Identifier: MIT
--- ridge.capture(f, ...): a plan of what a function computes, without what nobody needs.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local emit = require('ridge.graph_plan').emit
local plan = require 'ridge.plan'
local record = require 'ridge.graph_record'

local M = {}

-- A graph beside its plan takes some 500 bytes a node: it is kept where that is little, or at most
-- a hundredth of the plan's buffers.
local NODES, NODE_BYTES, SHARE = 2000, 500, 0.01

-- Passes that keep every bit and leave calls out, as C reads them, and the one that joins calls.
-- What else is exact makes other memory or other nodes of them: ridge.compile is for that.
local LEAVES_OUT = { arithmetic_identities = true, common_subexpression_elimination = true,
  dead_code_elimination = true }
local EXACT, N_EXACT, FUSION = ffi.new('const char *[?]', C.rg_pass_count()), 0, nil
for index = 0, C.rg_pass_count() - 1 do
  local pass = ffi.new 'rg_pass_facts'
  call.check(C.rg_pass_facts_of(index, pass))
  if ffi.string(pass.name) == 'elementwise_fusion' then
    FUSION = index
  elseif LEAVES_OUT[ffi.string(pass.name)] then
    EXACT[N_EXACT] = pass.name
    N_EXACT = N_EXACT + 1
  end
end

local function facts_of(graph)
  local facts = ffi.new 'rg_graph_facts'
  C.rg_graph_facts_of(graph, facts)
  return facts
end

-- The graph after the exact passes, nil where they leave every call in its place; and how many
-- calls were left out.
local function reduced(graph)
  local slot = ffi.new 'rg_graph *[1]'
  call.check(C.rg_graph_optimize(graph, EXACT, N_EXACT, slot), 'capture')
  local less = ffi.gc(slot[0], C.rg_graph_release)
  local before, calls = facts_of(graph).n_calls, facts_of(less).n_calls
  call.check(C.rg_graph_pass(less, FUSION), 'capture')
  if facts_of(less).n_calls == before then return nil, 0 end
  call.check(C.rg_graph_copy(less, slot), 'capture') -- numbered without gaps
  return ffi.gc(slot[0], C.rg_graph_release), before - calls
end

-- Leaves whose gradients a recording made or read; nil where there are none.
local function leaves_of(graph)
  local list, n = ffi.new 'rg_leaf_gradient *[1]', ffi.new 'int32_t[1]'
  call.check(C.rg_graph_leaf_gradients(graph, list, n), 'capture')
  local count = n[0]
  local held = ffi.gc(list[0], function(p) C.rg_leaf_gradients_free(p, count) end)
  if count == 0 then return nil end
  return { list = held, n = count, seen = ffi.new('int64_t[1]', C.rg_grad_changes()) }
end

--- Run a function once and make a plan of what it computes: of its calls, in their order, those
--- that are needed for what it returned, for what it wrote to that was there before and for what is
--- held outside when it has returned or was given to ridge.used; and what it computed twice, once.
--- Results have the same bits.
--- plan:facts().recorded tells what was left out; ridge.graph(f, ...):plan() leaves nothing out.
--- plan.graph is the graph as recorded, plan.emitted as it runs, where they are small (up to 2,000
--- nodes, or a hundredth of the plan's buffers).
--
-- The plan reads what lies in the tensors the function uses at the time it is run; write into them
-- (copy_) to change its inputs.  Gradients that the function made are those of its leaves again
-- when the plan has run, with nothing added to what was there; to gradients that the function found
-- it adds, as the function would.  What cannot be replayed is an error at its line: reading an
-- element, making a tensor from Lua numbers.
---@param f function
---@param ... any its arguments
---@return table plan; plan() replays it and returns what f returned, in the same tensors
-- >> local x = ridge.ones(3); local p = ridge.capture(function() return x + 1 end)
function M.capture(f, ...)
  if not blame.callable(f) then blame.raise('capture: a function is expected, got ' .. type(f)) end
  local slot, made = ffi.new 'rg_graph *[1]', { in_place = true }
  local whole = plan.settled_steps(record.call, slot, made, f, ...)
  local graph = ffi.gc(slot[0], C.rg_graph_release)
  local facts = facts_of(graph)
  if facts.n_outputs == 0 and facts.n_states == 0 then
    blame.raise('capture: it computes nothing that is seen outside; return what you want computed',
      'EARG', 'capture')
  end
  local leaves = leaves_of(graph)
  local less, left_out = reduced(graph)
  local now = less and facts_of(less) or facts
  local fields = { results = made.held, n_results = made.held.n, training = made.training,
    reduced = facts.flops - now.flops > 0.01 * facts.flops,
    parameters = made.places, replaced = made.replaced, leaves = leaves,
    recorded = { n_calls = facts.n_calls, left_out = left_out,
      flops = facts.flops, bytes = facts.bytes } }
  local pointer = not less and plan.take(whole) or nil
  whole:release()
  pointer = pointer or emit(less, 'capture')
  local made_plan = plan.own(pointer, fields)
  local buffers = ffi.new 'rg_plan_facts'
  call.check(C.rg_plan_facts_of(pointer, buffers))
  if facts.n_nodes <= NODES
    or facts.n_nodes * NODE_BYTES <= SHARE * tonumber(buffers.buffer_bytes) then
    local own = require('ridge.graph').own
    fields.graph = own(ffi.gc(graph, nil))
    fields.emitted = less and own(ffi.gc(less, nil)) or fields.graph
  end
  return made_plan
end

return M
