-- SPDX-License-Identifier: MIT
--- g:plan(): a plan that runs a graph.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local make = require 'ridge.tensor.make'
local mode = require 'ridge.tensor.mode'
local options = require 'ridge.options'
local plan = require 'ridge.plan'
local ref = require 'ridge.ffi.ref'

local M = {}

local OPTIONS = {
  tensors = { 'table', doc = 'tensors by name, or by the number of an input: they hold what was '
    .. 'there before; net:state() gives those of a module' },
}

-- Values that no node makes, by name and, the inputs, by number.
local function givens(graph)
  local list, by = {}, {}
  for _, value in ipairs(graph:values()) do
    if value.kind ~= 'intermediate' then
      list[#list + 1] = value
      if value.name and not by[value.name] then by[value.name] = value end
    end
  end
  for i, value in ipairs(graph:inputs()) do by[i] = value end
  return list, by
end

local function find(by, key, what)
  local value = by[key]
  if value then return value end
  local names = {}
  for name in pairs(by) do names[#names + 1] = tostring(name) end
  table.sort(names)
  local near = blame.near(tostring(key), names)
  blame.raise(('%s: the graph has no %s%s'):format(what,
    type(key) == 'number' and 'input ' .. key or blame.show(key),
    near and (" (did you mean '%s'?)"):format(near)
    or #names > 0 and '; it has ' .. table.concat(names, ', ', 1, math.min(8, #names)) or ''),
    'EARG', what)
end

-- A copy whose values have tensors: those that were given, and zeros for inputs that have none.
local function bound(graph, tensors)
  local copy = graph:copy()
  local list, by = givens(copy)
  for key, x in pairs(tensors) do
    local value = find(by, key, 'graph:plan')
    ref.need(x, 'graph:plan')
    local status = C.rg_graph_bind(copy._p, value.id, x._t)
    if status ~= 0 then
      blame.raise(('graph:plan: %s: %s'):format(tostring(key), ffi.string(C.rg_error_message())),
        call.code(status), 'graph:plan')
    end
  end
  for _, value in ipairs(list) do
    if value.kind == 'input' and C.rg_graph_bound(copy._p, value.id) == nil then
      local sizes = value.shape
      sizes[#sizes + 1] = { dtype = value.dtype, device = value.device }
      local x = make.zeros(unpack(sizes))
      call.check(C.rg_graph_bind(copy._p, value.id, x._t), 'graph:plan')
    end
  end
  return copy
end

local function is_whole(graph)
  for _, value in ipairs(graph:inputs()) do
    if C.rg_graph_bound(graph._p, value.id) == nil then return false end
  end
  return true
end

-- What the recorded function returned, with the outputs in the places of its tensors; made: tables
-- that are there already, by what they were.
local function rebuilt(part, outputs, made)
  if part.output then return outputs[part.output] end
  if not part.fields then return part.value end
  local list = made[part]
  if not list then
    list = {}
    made[part] = list
    for key, field in pairs(part.fields) do list[key] = rebuilt(field, outputs, made) end
  end
  return list
end

local function results_of(about, outputs)
  local list, n, tables = {}, 0, {}
  if about.results then
    for i, part in ipairs(about.results) do list[i] = rebuilt(part, outputs, tables) end
    return list, #about.results
  end
  for i, kind in ipairs(about.kinds) do
    if kind == 'returned' then
      n = n + 1
      list[n] = outputs[i]
    end
  end
  return list, n
end

local function held(pointer)
  C.rg_tensor_retain(pointer)
  return ref.wrap(pointer)
end

-- The inputs, for plan:run { x = t }.
local function inputs_of(pointer, names)
  local by = {}
  for i, name in ipairs(names) do
    by[i] = held(C.rg_plan_input(pointer, i - 1))
    if name and not by[name] then by[name] = by[i] end
  end
  return by
end

-- What a plan and its clones need to know of the graph, which may be edited meanwhile.
local function about_of(graph, run)
  local about = { kinds = {}, names = {}, kept = {}, results = graph._made and graph._made.results }
  for i, output in ipairs(graph:outputs()) do
    about.kinds[i] = output.kind
    if output.kind == 'kept' then
      local value = output.value
      local node = value.producer
      table.insert(about.kept, { dtype = value.dtype, shape = value.shape, op = node and node.op,
        module = node and node.module, line = output.line })
    end
  end
  for i, value in ipairs(run:inputs()) do about.names[i] = value.name or false end
  return about
end

-- Fields of a plan of the core's.
local function fields_of(pointer, about, fields)
  local outputs = {}
  for i, kind in ipairs(about.kinds) do
    if kind == 'returned' then outputs[i] = held(C.rg_plan_output(pointer, i - 1)) end
  end
  fields.results, fields.n_results = results_of(about, outputs)
  fields.inputs, fields.kept = inputs_of(pointer, about.names), about.kept
  function fields.clone_of(self)
    local slot = ffi.new 'rg_plan *[1]'
    call.settle()
    call.check(C.rg_plan_clone(self._p, slot), 'plan:clone')
    return plan.own(ffi.gc(slot[0], C.rg_plan_release), fields_of(slot[0], about, {
      training = self.training, parameters = self.parameters, replaced = self.replaced,
      graph = self.graph, emitted = self.emitted }))
  end
  return fields
end

--- Emit a graph as a plan of the core's, which holds its outputs.
---@param graph cdata rg_graph pointer
---@param what string in front of an error
---@return cdata rg_plan pointer, finalized
function M.emit(graph, what)
  local slot, facts = ffi.new 'rg_plan *[1]', ffi.new 'rg_graph_facts'
  C.rg_graph_facts_of(graph, facts)
  local list = ffi.new('rg_tensor *[?]', facts.n_outputs + 1)
  call.settle()
  call.check(C.rg_graph_plan(graph, list, slot), what)
  for i = 0, facts.n_outputs - 1 do C.rg_tensor_release(list[i]) end
  return ffi.gc(slot[0], C.rg_plan_release)
end

-- The places of parameters that a plan still reads where it got tensors in the stead of some.
local function places_left(places, tensors)
  local function id(place) return tonumber(ffi.cast('intptr_t', place.tensor._t)) end
  local given, list = {}, {}
  for _, place in ipairs(places) do
    if tensors[place.name] then given[id(place)] = true end -- tied ones have one name in a graph
  end
  for _, place in ipairs(places) do
    if not given[id(place)] then list[#list + 1] = place end
  end
  return list
end

--- The plan of a graph.
---@param graph table
---@param opts table|nil {tensors = {name = tensor}}
---@return table plan
function M.of(graph, opts)
  opts = options.check(OPTIONS, opts or {}, 'graph:plan')
  local run = graph
  if opts.tensors or not is_whole(graph) then run = bound(graph, opts.tensors or {}) end
  local made = graph._made or { places = {}, replaced = mode.replaced }
  local pointer = M.emit(run._p, 'graph:plan')
  return plan.own(pointer, fields_of(pointer, about_of(graph, run), { training = made.training,
    parameters = places_left(made.places, opts.tensors or {}), replaced = made.replaced,
    graph = graph._recorded or graph, emitted = graph }))
end

return M
