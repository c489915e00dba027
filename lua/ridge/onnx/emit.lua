-- SPDX-License-Identifier: MIT
--- The graph of a net as a model: node by node, each record as the operators that compute it. What
--- only depends on weights is computed here, and is a weight of the file.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local fields = require 'ridge.onnx.fields'
local fold = require 'ridge.onnx.fold'
local make = require('ridge.tensor.make').here
local operators = require 'ridge.onnx.operators'
local ref = require 'ridge.ffi.ref'
local types = require 'ridge.onnx.types'

local M = {}

--- What writes a node of a record: f(e, node, names of its inputs); by the record's name.
M.records = {}

local E = {}
E.__index = E

--- What cannot be exported: one sentence, with the node it is about.
---@param node table|nil
---@param text string
function E.refuse(_, node, text)
  local about = node and ('%s%s%s'):format(node.op, node.module and ' in ' .. node.module or '',
    node.line and ' (' .. node.line .. ')' or '')
  blame.raise(('onnx.export: %s%s'):format(about and about .. ': ' or '', text), 'ENOSUP',
    'onnx.export')
end

-- -- Names --------------------------------------------------------------------------------------

local function unused(taken, wanted)
  local name, n = wanted, 1
  while taken[name] do
    n = n + 1
    name = wanted .. '_' .. n
  end
  taken[name] = true
  return name
end

--- A name that nothing has yet.
---@param wanted string
---@return string
function E:name(wanted) return unused(self.taken, wanted) end

-- -- Weights ------------------------------------------------------------------------------------

--- A weight of the file.
---@param wanted string its name, where nothing has it yet
---@param x Tensor
---@return string name
function E:weight(wanted, x)
  local name = self:name(wanted)
  table.insert(self.graph.initializers, { name = name, value = x })
  self.constant[name], self.types[name] = x, x.dtype
  return name
end

--- A list of whole numbers as a weight; the same list is one weight.
---@param list number[]
---@return string name
function E:ints(list)
  local key = 'list ' .. table.concat(list, ',') -- of one number is no number
  if not self.lists[key] then
    local x = #list > 0 and make.tensor(list, { dtype = 'i64' }) or make.empty(0, { dtype = 'i64' })
    self.lists[key] = self:weight('ints.' .. table.concat(list, '_'):gsub('%-', 'm'):sub(1, 40), x)
  end
  return self.lists[key]
end

--- A number as a weight without axes.
---@param value number
---@param dtype string
---@return string name
function E:number(value, dtype)
  local key = ('number %s %.17g'):format(dtype, value)
  if not self.lists[key] then
    self.lists[key] = self:weight('number.' .. ('%.6g'):format(value):gsub('[^%w.]', '_'),
      make.full(value, { dtype = dtype }))
  end
  return self.lists[key]
end

--- The tensor behind a name, where it is known when the file is written.
---@param name string
---@return Tensor|nil
function E:known(name)
  return self.constant[name]
end

--- A weight that is made of another one, once.
---@param name string
---@param how string what it becomes, behind its name
---@param f fun(x: Tensor): Tensor
---@return string name
function E:derived(name, how, f)
  local key = 'weight ' .. name .. ' ' .. how
  if not self.lists[key] then self.lists[key] = self:weight(name .. how, f(self.constant[name])) end
  return self.lists[key]
end

-- -- Nodes --------------------------------------------------------------------------------------

local function attribute(value, kind)
  return { type = kind, value = value }
end

-- The node itself, of inputs that are of types the operator takes.
local function put(e, op, inputs, list, outputs)
  local kinds = {}
  for i, name in ipairs(inputs) do kinds[i] = e.types[name] end
  for i, name in ipairs(outputs) do e.types[name] = types.gives(op, kinds, list, i) end
  table.insert(e.graph.nodes, { op = op, domain = '', name = e:node_name(outputs[1]),
    inputs = inputs, outputs = outputs, attributes = list })
end

-- What an operator does not take is converted to a wider type, and its results back.
local function put_wider(e, op, inputs, list, outputs, kind, wider)
  local casted, inner, back = {}, {}, {}
  for i, name in ipairs(inputs) do
    casted[i] = e.types[name] == kind and e:cast(name, kind, wider) or name
  end
  for i, name in ipairs(outputs) do
    local keeps = types.gives(op, { wider, wider }, list, i) == wider
    inner[i] = keeps and e:name(name .. '.' .. wider) or name
    back[#back + 1] = keeps and i or nil
  end
  put(e, op, casted, list, inner)
  for _, i in ipairs(back) do
    put(e, 'Cast', { inner[i] }, { to = attribute(fields.type[kind], 'int') }, { outputs[i] })
  end
end

--- Write a node.
---@param op string operator
---@param inputs string[] names; '' for one that is left out
---@param attributes table|nil values by name
---@param outputs string|string[]|nil names; made up when left out
---@return string ... names of its outputs
function E:node(op, inputs, attributes, outputs)
  local entry = operators[op]
  if not entry or entry.since > self.opset then
    self:refuse(self.at, ('ONNX has no %s in operators of version %d'):format(op, self.opset))
  end
  local list = {}
  for name, value in pairs(attributes or {}) do
    list[name] = attribute(value, entry.attributes[name])
  end
  if type(outputs) ~= 'table' then outputs = { outputs or self:name(self.prefix .. op) } end
  while inputs[#inputs] == '' do inputs[#inputs] = nil end
  local kinds = {}
  for i, name in ipairs(inputs) do kinds[i] = self.types[name] end
  local kind = types.of(op, kinds)
  local wider = types.instead(op, kind, self.opset)
  if not wider then
    self:refuse(self.at, ('ONNX has no %s of %s in operators of version %d'):format(op, kind,
      self.opset))
  end
  if wider == kind then
    put(self, op, inputs, list, outputs)
  else
    put_wider(self, op, inputs, list, outputs, kind, wider)
  end
  return unpack(outputs)
end

function E:node_name(wanted) return unused(self.node_names, wanted) end

-- What a type has not becomes its smallest or largest number in ridge; in ONNX whole numbers keep
-- their lowest bits, and of others it is not said.
local RANGE = { u8 = { 0, 255 }, i8 = { -128, 127 }, i32 = { -2 ^ 31, 2 ^ 31 - 1 } }
local ALL = { -math.huge, math.huge }

--- Convert a value, unless it is of the type.
---@param name string
---@param from string
---@param to string
---@return string
function E:cast(name, from, to)
  if from == to then return name end
  local range, own = RANGE[to], RANGE[from] or ALL
  if range and from ~= 'bool' and (to ~= 'i32' or from == 'i64') then
    if own[1] < range[1] then name = self:node('Max', { name, self:number(range[1], from) }) end
    if own[2] > range[2] then name = self:node('Min', { name, self:number(range[2], from) }) end
  end
  -- ridge's 8-bit floats have no largest number for what lies beyond: that is nan, or inf
  local saturate = to:find '^f8' and 0 or nil
  return self:node('Cast', { name }, { to = fields.type[to], saturate = saturate })
end

-- -- Values -------------------------------------------------------------------------------------

--- The name of a graph's value; that of one nobody made is a weight.
---@param value table|boolean
---@return string ''  where it is left out
function E:of(value)
  if not value then return '' end
  local name = self.names[value.id]
  if name then return name end
  local pointer = C.rg_graph_bound(self.source._p, value.id)
  if pointer == nil then self:refuse(nil, tostring(value) .. ' has no tensor') end
  local x = ref.wrap(C.rg_tensor_retain(pointer)):detach():to 'cpu'
  name = self:weight(value.name or ('constant_%d'):format(value.id), x)
  self.names[value.id] = name
  return name
end

--- A value of the graph has this name; outputs of the model get theirs.
---@param value table
---@param name string
function E:is(value, name)
  self.names[value.id], self.types[name] = name, value.dtype
end

--- The name that what makes a value has to give it, or nil where any will do.
---@param value table
---@return string
function E:wanted(value)
  return value and self.promised[value.id]
end

--- Sizes of a value: numbers, or sizes that follow a dynamic axis (ridge.onnx.sizes).
---@param value table
---@return table
function E:shape(value)
  return self.sizes:shape(value)
end

-- -- The walk -----------------------------------------------------------------------------------

local function prefix_of(node)
  return node.module and node.module .. '/' or ''
end

-- What a record makes, computed now where all it reads is known.
local function folded(e, node, names)
  local inputs = {}
  for i, name in ipairs(names) do
    if name == '' then
      inputs[i] = false
    else
      inputs[i] = e:known(name)
      if not inputs[i] then return false end
    end
  end
  for _, size in ipairs(node.outputs[1] and e:shape(node.outputs[1]) or {}) do
    if type(size) == 'table' then return false end
  end
  local x = #names > 0 and node.outputs[1] and fold.compute(node, inputs)
  if not x then return false end
  local name = e:weight(('%s%s'):format(prefix_of(node), node.op), x)
  e:is(node.outputs[1], name)
  return true
end

-- A write into what was there before is a value of its own, unless somebody sees it elsewhere.
local function check_write(e, node)
  for _, value in ipairs(node.outputs) do
    local was = value and value.was
    if was then
      local is_input = false
      for _, input in ipairs(node.inputs) do is_input = is_input or input and input.id == was.id end
      if not is_input then
        e:refuse(node, 'it writes into a part of a tensor, which a file cannot say')
      end
    end
  end
end

local function write(e, node)
  local f = M.records[node.op]
  if not f then return false end
  e.at, e.prefix = node, prefix_of(node)
  local names = {}
  for i, value in ipairs(node.inputs) do names[i] = e:of(value) end
  check_write(e, node)
  if folded(e, node, names) then return true end
  local before = #e.graph.nodes
  local results = { f(e, node, names) }
  if results[1] == nil then
    if #e.graph.nodes > before then e:refuse(node, 'it was written in part') end
    return false
  end
  for i, name in ipairs(results) do
    local value = node.outputs[i]
    if value and name then
      local wanted = e.promised[value.id]
      if wanted and name ~= wanted then
        local last = e.graph.nodes[#e.graph.nodes]
        if i == 1 and last and last.outputs[1] == name and not e.promised_name[name] then
          last.outputs[1] = wanted -- nobody has read it yet
          last.name = e:node_name(wanted)
          name = wanted
        else
          name = e:node('Identity', { name }, nil, wanted)
        end
      end
      e:is(value, name)
    end
  end
  return true
end

-- Nodes one after the other; what no operator is for, by its body.
local function walk(e, nodes)
  local skip = 0
  for _, node in ipairs(nodes) do
    if skip > 0 then
      skip = skip - 1
    else
      local body = #node.body
      if write(e, node) then
        skip = body
      elseif body == 0 then
        e:refuse(node, 'ONNX has no operator for it')
      end
    end
  end
end

--- The model of a graph.
---@param source table graph
---@param opts table { opset =, inputs = names, outputs = names, sizes = ridge.onnx.sizes object }
---@return table model
function M.model(source, opts)
  local e = setmetatable({ source = source, opset = opts.opset, sizes = opts.sizes, taken = {},
    lists = {}, constant = {}, names = {}, types = {}, promised = {}, promised_name = {},
    node_names = {}, prefix = '',
    graph = { name = opts.name or 'graph', nodes = {}, inputs = {}, outputs = {}, values = {},
      initializers = {} } }, E)
  local by_number = {}
  for _, value in ipairs(source:inputs()) do
    local name = value.name or ''
    local number = name == 'input' and 1 or tonumber(name:match '^input%.(%d+)$')
    if number and opts.inputs[number] then by_number[number] = value end
  end
  for i, name in ipairs(opts.inputs) do
    local value, x = by_number[i], opts.xs[i]
    e.taken[name] = true
    e.types[name] = x.dtype
    if value then e:is(value, name) end
    local shape = value and e.sizes:names(value) or x:size()
    for axis, open in pairs(value and {} or e.sizes:open(i)) do shape[axis] = open end
    e.graph.inputs[i] = { name = name, type = x.dtype, shape = shape }
  end
  local outputs = source:outputs()
  for i, output in ipairs(outputs) do
    local name, value = opts.outputs[i], output.value
    e.taken[name] = true
    if not e.promised[value.id] and value.producer then
      e.promised[value.id], e.promised_name[name] = name, true
    end
    e.graph.outputs[i] = { name = name, type = value.dtype, shape = e.sizes:names(value) }
  end
  walk(e, source:nodes())
  for i, output in ipairs(outputs) do
    local name = e:of(output.value)
    if name ~= opts.outputs[i] then e:node('Identity', { name }, nil, opts.outputs[i]) end
  end
  M.tidy(e, source)
  return { ir_version = M.ir_version(opts.opset), opset = { [''] = opts.opset },
    producer = 'ridge', producer_version = ffi.string(C.rg_version()), metadata = {},
    graph = e.graph, functions = {} }
end

--- Leave out what nobody reads, and say the sizes of what is between the nodes.
---@param e table
---@param source table graph
function M.tidy(e, source)
  local read, nodes, weights = {}, {}, {}
  for _, v in ipairs(e.graph.outputs) do read[v.name] = true end
  for i = #e.graph.nodes, 1, -1 do
    local node, used = e.graph.nodes[i], false
    for _, name in ipairs(node.outputs) do used = used or read[name] end
    if used then
      table.insert(nodes, 1, node)
      for _, name in ipairs(node.inputs) do read[name] = true end
    end
  end
  for _, t in ipairs(e.graph.initializers) do
    if read[t.name] then weights[#weights + 1] = t end
  end
  local made, is_output = {}, {}
  for _, node in ipairs(nodes) do
    for _, name in ipairs(node.outputs) do made[name] = true end
  end
  for _, v in ipairs(e.graph.outputs) do is_output[v.name] = true end
  for _, value in ipairs(source:values()) do
    local name = e.names[value.id]
    if name and made[name] and not is_output[name] then
      made[name] = nil
      table.insert(e.graph.values, { name = name, type = value.dtype,
        shape = e.sizes:names(value) })
    end
  end
  e.graph.nodes, e.graph.initializers = nodes, weights
end

local IR = { [13] = 7, [14] = 7, [15] = 8, [16] = 8, [17] = 8, [18] = 8, [19] = 9, [20] = 9,
  [21] = 10 }

--- The version of the format that operators of a version came with.
---@param opset number
---@return number|nil
function M.ir_version(opset)
  return IR[opset]
end

return M
