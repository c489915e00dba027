-- SPDX-License-Identifier: MIT
--- Graphs: what a function computes, as nodes and values that can be walked and edited.
--
-- A node is a call of an operation; a value is what one made, or what was there before.  Passes are
-- functions of a graph that edit it:
--
--   ridge.graph.pass('relu for gelu', function(graph)
--     for _, node in ipairs(graph:nodes()) do
--       if node.op == 'gelu' and node.module == 'blocks.2' then
--         local relu = graph:insert('relu', node.inputs, { after = node })
--         graph:replace(node.outputs[1], relu.outputs[1])
--         graph:remove(node)
--       end
--     end
--   end)
--   local faster = g:optimize { 'relu for gelu' }            -- a copy; g stays as it is

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local dtype = require 'ridge.tensor.dtype'
local graph_args = require 'ridge.graph_args'
local guard = require 'ridge.guard'
local late = require 'ridge.late'
local options = require 'ridge.options'
local output = require 'ridge.ffi.output'
local passes = require 'ridge.graph_passes'
local schema = require 'ridge.tensor.schema'
local symbolic = require 'ridge.graph_sizes'
local text_of_graph = require 'ridge.graph_text'

local M = {}

local Graph, Node, Value = { __name = 'graph' }, { __name = 'node' }, { __name = 'value' }
Graph.__index = Graph

local KINDS = { [0] = 'input', 'parameter', 'constant', 'state', 'intermediate' }
local OUTPUTS = { [0] = 'returned', 'gradient', 'kept' }

-- -- Values and nodes -------------------------------------------------------------------------

-- The one object of a number: two that are the same value, or node, are equal.
local function object(graph, cache, class, id)
  if id < 0 then return nil end
  local found = cache[id]
  if not found then
    found = setmetatable({ graph = graph, id = id }, class)
    cache[id] = found
  end
  return found
end

local function value_of(graph, id) return object(graph, graph._values, Value, id) end
local function node_of(graph, id) return object(graph, graph._nodes, Node, id) end

local function facts_of(self, kind, f)
  local facts = ffi.new(kind)
  call.check(f(self.graph._p, self.id, facts), 'graph')
  return facts
end

-- false stands for a value that is left out, so that lists have no holes
local function values_of(graph, list, n)
  local out = {}
  for i = 1, n do out[i] = value_of(graph, list[i - 1]) or false end
  return out
end

local function text_of(pointer)
  local text = ffi.string(pointer)
  return text ~= '' and text or nil
end

-- What a node knows, by name.
local OF_NODE = {
  op = function(f) return ffi.string(f.name) end,
  module = function(f) return text_of(f.module) end,
  line = function(f) return text_of(f.line) end,
  inputs = function(f, graph) return values_of(graph, f.inputs, f.n_inputs) end,
  outputs = function(f, graph) return values_of(graph, f.outputs, f.n_outputs) end,
  args = function(f) return graph_args.of(f) end,
  parent = function(f, graph) return node_of(graph, f.parent) end,
  recomputed = function(f) return f.recomputed == 1 end,
  repeats = function(f, graph) return node_of(graph, f.repeats) end, -- whose draw it has
  flops = function(f) return f.flops end, bytes = function(f) return f.bytes end,
  autocast = function(f) return f.modes.autocast >= 0 and dtype.name(f.modes.autocast) or nil end,
  compute = function(f) return f.modes.compute >= 0 and dtype.name(f.modes.compute) or nil end,
  modes = function(f) return require('ridge.plan').modes_of(f.modes, f.modes.gemm) end,
  body = function(f, graph)
    local out, n = {}, ffi.new 'int32_t[1]'
    local order = f.n_body > 0 and C.rg_graph_order(graph._p, n)
    for i = 1, f.n_body do out[i] = node_of(graph, order[f.position + i]) end
    return out
  end,
}

local OF_VALUE = {
  name = function(f) return text_of(f.name) end,
  dtype = function(f) return dtype.name(f.dtype) end,
  shape = function(f)
    local shape = {}
    for i = 1, f.ndim do shape[i] = tonumber(f.shape[i - 1]) end
    return shape
  end,
  device = function(f) return ffi.string(C.rg_device_name(f.device)) end,
  kind = function(f) return KINDS[f.kind] end,
  producer = function(f, graph) return node_of(graph, f.producer) end,
  storage = function(f) return f.storage end,
  version = function(f) return f.version end,
  was = function(f, graph) return value_of(graph, f.was) end,
  uses = function(f, graph, self)
    local out, seen = {}, {}
    for i = 0, f.n_uses - 1 do
      local node = C.rg_graph_use(graph._p, self.id, i)
      if node >= 0 and not seen[node] then
        seen[node] = true
        out[#out + 1] = node_of(graph, node)
      end
    end
    return out
  end,
}

local function reader(fields, what, kind, f)
  return function(self, key)
    local field = fields[key]
    if not field then
      local names = {}
      for name in pairs(fields) do names[#names + 1] = name end
      local near = blame.near(key, names)
      blame.raise(('graph: a %s has no %s%s'):format(what, blame.show(key),
        near and (" (did you mean '%s'?)"):format(near) or ''), 'EARG', 'graph')
    end
    return field(facts_of(self, kind, f), self.graph, self)
  end
end

Node.__index = reader(OF_NODE, 'node', 'rg_graph_node', C.rg_graph_node_of)
Value.__index = reader(OF_VALUE, 'value', 'rg_graph_value', C.rg_graph_value_of)

function Node:__tostring()
  return ('node %d (%s%s)'):format(self.id, self.op, self.module and ', ' .. self.module or '')
end

function Value:__tostring()
  return ('%%%d: %s[%s]%s'):format(self.id, self.dtype, table.concat(self.shape, ','),
    self.name and ' ' .. self.name or '')
end

-- -- Graphs -----------------------------------------------------------------------------------

--- A graph of the core's as an object, which holds it from then on.
---@param pointer cdata rg_graph pointer, a new reference
---@return table graph
function M.own(pointer)
  if not ffi.istype('rg_graph *', pointer) then -- everything public is called with everything
    blame.raise('graph.own: a pointer of the core is expected, got ' .. blame.show(pointer), 'EARG',
      'graph.own')
  end
  return setmetatable({ _p = ffi.gc(pointer, C.rg_graph_release),
    _values = setmetatable({}, { __mode = 'v' }), _nodes = setmetatable({}, { __mode = 'v' }) },
    Graph)
end

--- Is this value a graph?
---@param value any
---@return boolean
function M.is(value)
  return getmetatable(value) == Graph
end

-- The graph in front of the colon.
local function need(self, name)
  if not M.is(self) then
    blame.raise(('graph:%s: it is called with a colon on a graph, got %s'):format(name,
      blame.show(self)), 'EARG', 'graph')
  end
  return self._p
end

local function facts(self, name)
  local f = ffi.new 'rg_graph_facts'
  C.rg_graph_facts_of(need(self, name), f)
  return f
end

--- The nodes in their order, those of bodies behind their compounds. The array stays as it is
--- while the graph is edited.
---@return table[] nodes: op, inputs, outputs, args, module, line, parent, body, recomputed, repeats
---  (the node whose random numbers it draws again), compute, autocast, modes (as plan:facts() has
---  them), flops, bytes
function Graph:nodes()
  local n, out = ffi.new 'int32_t[1]', {}
  local order = C.rg_graph_order(need(self, 'nodes'), n)
  if order == nil and n[0] > 0 then call.fail(C.RG_ENOMEM, 'graph') end
  for i = 1, n[0] do out[i] = node_of(self, order[i - 1]) end
  return out
end

--- The values, by number.
---@return table[] values: name, dtype, shape, device, kind, producer, uses, storage, version, was
function Graph:values()
  local out = {}
  local f = ffi.new 'rg_graph_value'
  for id = 0, facts(self, 'values').n_value_ids - 1 do
    if C.rg_graph_value_of(self._p, id, f) == 0 then out[#out + 1] = value_of(self, id) end
  end
  return out
end

--- What is read anew at every run.
---@return table[] values
function Graph:inputs()
  local out = {}
  for i = 1, facts(self, 'inputs').n_inputs do
    out[i] = value_of(self, C.rg_graph_input(self._p, i - 1))
  end
  return out
end

--- What is written to and outlives a run, as it is before.
---@return table[] values
function Graph:states()
  local out = {}
  for i = 1, facts(self, 'states').n_states do
    out[i] = value_of(self, C.rg_graph_state(self._p, i - 1))
  end
  return out
end

--- What comes out.
---@return table[] {value =, name =, kind =, line =}: kind is 'returned', 'gradient' or 'kept'
function Graph:outputs()
  local out, kind = {}, ffi.new 'int32_t[1]'
  local name, line = ffi.new 'const char *[1]', ffi.new 'const char *[1]'
  for i = 1, facts(self, 'outputs').n_outputs do
    local value = C.rg_graph_output(self._p, i - 1, kind, name, line)
    out[i] = { value = value_of(self, value), kind = OUTPUTS[kind[0]], name = text_of(name[0]),
      line = text_of(line[0]) }
  end
  return out
end

-- What another graph, or none, is not for.
local function mine(self, x, class, what)
  if getmetatable(x) ~= class or x.graph ~= self then
    blame.raise(('graph: a %s of this graph is expected, got %s'):format(what,
      getmetatable(x) == class and 'one of another graph' or blame.show(x)), 'EARG', 'graph')
  end
  return x.id
end

--- Let everybody who reads one value read another one: nodes, and outputs of the graph.
---@param old table value
---@param by table value
function Graph:replace(old, by)
  call.check(C.rg_graph_replace(need(self, 'replace'), mine(self, old, Value, 'value'),
    mine(self, by, Value, 'value')), 'graph')
end

--- Take a node away, with its body. What it makes may not be needed any more.
---@param node table
function Graph:remove(node)
  call.check(C.rg_graph_remove(need(self, 'remove'), mine(self, node, Node, 'node')), 'graph')
end

local INSERT = {
  before = { 'table', doc = 'the node it stands before' },
  after = { 'table', doc = 'or behind' },
  args = { 'table', doc = 'arguments by name, as its method has them' },
}

local function record_of(op)
  for _, record in ipairs(schema.records()) do
    if record.name == op then return record end
  end
  local names = {}
  for i, record in ipairs(schema.records()) do names[i] = record.name end
  local near = blame.near(op, names)
  blame.raise(('graph: there is no operation %s%s'):format(blame.show(op),
    near and (" (did you mean '%s'?)"):format(near) or ''), 'EARG', 'graph')
end

--- A new node directly before or behind another one; it runs as that does.
---@param op string the operation: 'relu'
---@param inputs table values, in the order of the operation; false where one is left out
---@param opts table {before = node} or {after = node}; args = {axis = -1}
---@return table node
function Graph:insert(op, inputs, opts)
  need(self, 'insert')
  opts = options.check(INSERT, opts or {}, 'graph:insert')
  if (opts.before == nil) == (opts.after == nil) then
    blame.raise('graph: a node is inserted before a node or after one', 'EARG', 'graph')
  end
  local record = record_of(op)
  local list = ffi.new('int32_t[?]', #inputs)
  for i, value in ipairs(inputs) do
    list[i - 1] = value and mine(self, value, Value, 'value') or -1
  end
  local ndim = inputs[1] and #inputs[1].shape or 0
  local made = ffi.new 'int32_t[1]'
  call.check(C.rg_graph_insert(self._p, mine(self, opts.before or opts.after, Node, 'node'),
    opts.after and 1 or 0, record.index, list, #inputs,
    graph_args.struct(record, opts.args or {}, ndim), made), 'graph')
  return node_of(self, made[0])
end

--- A copy of its own, numbered without gaps.
---@return table graph
function Graph:copy()
  local slot = ffi.new 'rg_graph *[1]'
  call.check(C.rg_graph_copy(need(self, 'copy'), slot), 'graph')
  local copy = M.own(slot[0])
  copy._made, copy._recorded = self._made, self._recorded or self
  return copy
end

--- Raise unless every invariant of a graph holds: a sentence names the node.
---@return table graph itself
function Graph:check()
  call.check(C.rg_graph_check(need(self, 'check')), 'graph')
  return self
end

--- Are two graphs the same, but for the numbers and lines of their nodes?
---@param other table
---@return boolean
---@return string|nil what is another one
function Graph:same(other)
  if C.rg_graph_same(need(self, 'same'), need(other, 'same')) == 0 then return true end
  return false, ffi.string(C.rg_error_message())
end

--- A plan that runs the graph: its nodes, in their order, each at the types and under the modes it
--- was recorded with. Nothing runs before the plan does. It returns what the recorded function
--- returned, in tensors of its own; gradients are written into those that their parameters hold.
---@param opts table|nil {tensors = {name = tensor}}: what holds inputs, parameters and states, by
---  name, or inputs by number; without, those of the recording. A graph out of a file has none:
---  inputs begin as zeros, and parameters have to be given ({tensors = net:state()})
---@return table plan plan.graph is the graph as recorded, plan.emitted the one that it runs
-- >> local x = ridge.ones(3); return ridge.graph(function(a) return a * 2 end, x):plan():run()
function Graph:plan(opts)
  need(self, 'plan')
  return require('ridge.graph_plan').of(self, opts)
end

--- The graph as JSON, a line a node.
---@return string
function Graph:json()
  local slot = ffi.new 'const char *[1]'
  call.check(C.rg_graph_json(need(self, 'json'), slot), 'graph')
  return ffi.string(slot[0])
end

--- Write it into a file, for ridge.graph.load.
---@param path string 'graph.json'
function Graph:save(path)
  output.write(path, 'graph', self:json())
end

local function printed(graph)
  local slot = ffi.new 'const char *[1]'
  call.check(C.rg_graph_print(graph._p, slot), 'graph')
  return ffi.string(slot[0])
end

function Graph:__tostring()
  return self._sizes and text_of_graph.print(self, printed) or printed(self)
end

local function parsed(text)
  local slot = ffi.new 'rg_graph *[1]'
  call.check(C.rg_graph_parse(text, #text, slot))
  return M.own(slot[0])
end

--- A graph out of a text, of which nothing is run: one that was printed, `tostring(g)`, or JSON.
--- It is the same as g but for what no text holds: tensors (inputs begin as zeros; parameters and
--- constants are given here, or to graph:plan), and what nodes cost is what their records say.
---@param text string
---@param opts table|nil {tensors = {['fc.weight'] = t, ['%7'] = t}}: by name, or by number in the
---  text
---@return table graph
-- >> local g = ridge.graph(function(a) return a:exp() end, ridge.ones(2))
-- >> return ridge.graph.parse(tostring(g)):same(g)
function M.parse(text, opts)
  if type(text) ~= 'string' then
    blame.raise('graph.parse: a text is expected, got ' .. blame.show(text), 'EARG', 'graph')
  end
  return text_of_graph.parse(text, opts, parsed)
end

--- A graph out of a file that graph:save wrote.
---@param path string
---@return table graph
function M.load(path)
  local file, why = io.open(path, 'rb')
  local text = file and file:read '*a'
  if file then file:close() end
  if not text then
    blame.raise(('graph.load: %s'):format(why or path .. ': it cannot be read'), 'EIO', 'graph')
  end
  return M.parse(text)
end

-- -- Passes -----------------------------------------------------------------------------------

M.pass, M.passes, M.aliases = passes.pass, passes.passes, passes.aliases

--- A copy on which passes have run, in the order of their names: those of ridge.graph.passes(), or
--- names that stand for several of them ('operator_fusion'). Where one fails, or leaves something
--- that is no graph, the error says which; this graph stays as it is in any case.
---
--- With calibrate, 'aggressive' infers in 8 bits: the net that the graph was recorded of, which has
--- to be one of one input in evaluation mode, is quantized with ranges that are observed on that
--- data (ridge.quant.static), layer by layer where that is measured to be as fast with as many
--- rows, and recorded again. What was taken and what was not, and why, is in graph.quantized.
---@param names string[]|string a list; or a level: 'standard' is all that keep every bit,
---  'aggressive' also those that may change rounding
---@param opts table|nil {calibrate = loader, batches = 100, rows = the graph's, or false for all
---  layers}
---@return table graph
-- >> ridge.graph(function(x) return x:exp() * 1 end, ridge.ones(2)):optimize {
-- >>   'arithmetic_identities' }
function Graph:optimize(names, opts)
  need(self, 'optimize')
  if opts ~= nil then return require(late.above.graph_int8).of(self, names, opts) end
  return passes.run(self, names)
end

--- What each pass of graph:optimize did, a row a pass: { pass =, nodes =, nodes_before =, flops =,
--- flops_before =, bytes =, bytes_before =, same = (the plan behind it gives the bits of the one
--- before it), difference = (else the largest difference, over the largest number there), why =
--- (it could not be run, so that nobody knows) }. The graph is run with what its tensors hold, and
--- what it writes is put back.
---@return table rows tostring is a table
-- >> local x = ridge.ones(3)
-- >> return ridge.graph(function(a) return a:exp() * 1 end, x):optimize 'standard':changes()
function Graph:changes()
  need(self, 'changes')
  return require('ridge.graph_changes').of(self)
end

--- What each pass of graph:optimize is worth here, a row a pass: { pass =, ratio = (time without it
--- over time with all), ci_lo =, ci_hi =, verdict =, bytes = (that a plan takes more without it),
--- idle = (it changes nothing here), result = (of ridge.measure.ab) }. What runs write is put back.
---@param x Tensor|table|nil contents for the inputs, as plan:run takes them
---@param opts table|nil as ridge.measure.ab takes them: blocks, looks, margin ...
---@return table rows tostring is a table
function Graph:ablate(x, opts)
  need(self, 'ablate')
  return require(late.above.ablate[1]).ablate(self, x, opts)
end

local AT = {
  check = { 'boolean', default = false,
    doc = 'run the function once at this size, and raise where it computes something else' },
}

--- The graph for another size, where it was recorded with sizes that may change:
--- ridge.graph(net, x, { sizes = { { 'N', 3, 224, 224 } } }). It reads the same parameters. The
--- function was run at three sizes; a branch that it takes at others only, `check` sees.
---@param n number the size
---@param opts table|nil {check = true}
---@return table graph
-- >> local net, x = ridge.nn.Linear(3, 2):eval(), ridge.ones(4, 3)
-- >> return ridge.graph(net, x, { sizes = { { 'N', 3 } } }):at(9):plan():run()
function Graph:at(n, opts)
  need(self, 'at')
  return symbolic.at(self, n, options.check(AT, opts or {}, 'graph:at').check)
end

--- The values with a size that may change: { value =, shape = { 'N', 3, '2*N+1' } }, and name.
---@return table list
function Graph:sizes()
  need(self, 'sizes')
  return symbolic.shapes(self)
end

--- What memory it needs, in bytes: peak = of what is alive at once in this order, at = (the node),
--- bound = what one node reads and makes at most, which no order goes below, outside = inputs,
--- parameters and constants; plan = what a plan takes for its buffers and what its kernels work in
--- (images in other layouts; of products a little more may come with the first run, and stands in
--- plan:facts() then), live = of what values and kernels need at one time, which no plan goes below
--- (0: not known), derived = weights in these buffers that passes made
--- of others: made once and kept, no part of peak, bound and live; replaced = what stands outside
--- for them alone. Parameters stay where they are, as a module that has them may be trained, saved
--- or given others; a file of ridge.onnx.export with optimize = true has the derived ones only.
---@return table memory tostring says it
-- >> local x = ridge.ones(3)
-- >> return ridge.graph(function(a) return a:exp():sin() end, x):memory().peak
function Graph:memory()
  need(self, 'memory')
  return require('ridge.graph_memory').of(self)
end

--- Write it as a picture for Graphviz: dot -Tsvg net.dot > net.svg. Compounds are frames.
---@param path string 'net.dot'
function Graph:dot(path)
  need(self, 'dot')
  output.write(path, 'graph', require('ridge.graph_dot').picture(self))
end

require('ridge.types').register('Graph', M.is, {
  methods = { nodes = 'nodes(): the nodes in their order', values = 'values(): all values',
    inputs = 'inputs(): what is read anew at every run', outputs = 'outputs(): what comes out',
    states = 'states(): what is written to and outlives a run',
    replace = 'replace(old, by): who reads one value reads another',
    insert = "insert('relu', inputs, {before = node}): a new node",
    remove = 'remove(node): with its body', copy = 'copy(): a copy of its own',
    check = 'check(): is every invariant true?', same = 'same(other): but for numbers?',
    json = 'json(): as text', save = "save('graph.json')",
    plan = 'plan(): a plan that runs it',
    optimize = "optimize{names}, or 'standard': a copy on which passes have run",
    changes = 'changes(): what each pass of optimize did',
    at = 'at(n): the graph for another size', sizes = 'sizes(): those that may change',
    ablate = 'ablate(x): what each pass is worth here', memory = 'memory(): what it needs',
    dot = "dot('net.dot'): a picture for Graphviz" },
})

M.lines = require('ridge.lines').lines
guard.all(Graph)
guard.all(M)

return setmetatable(M, {
  __call = function(_, f, ...)
    local record = require('ridge.graph_record').record
    local given, n = symbolic.option(...)
    if not given then return record(M.own, f, ...) end
    return symbolic.record(function(...) return record(M.own, ...) end, M.parse, given, f,
      unpack({ ... }, 1, n))
  end,
})
