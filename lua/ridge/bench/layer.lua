-- SPDX-License-Identifier: MIT
--- Models as one line of text: `linear{1024,4096}`, `sketched{1024,512,num_terms=2,low_rank=32}`,
-- `sequential{linear{784,256},relu,linear{256,10}}`, `mlp{784,256,10,act=gelu}`.
--
-- A closed language: names, numbers and words, read by the parser below and by nothing else. A bare
-- name where a number belongs is a parameter, `linear{width,width}`, and gets its value when the
-- model is built.

local blame = require 'ridge.blame'
local near = require 'ridge.near'

local M = {}

local MAX_DEPTH, MAX_TEXT = 20, 4096

local ACTS = require('ridge.tensor.schema').ACT_NAMES
local MODULES = { relu = 'ReLU', relu6 = 'ReLU6', gelu = 'GELU', silu = 'SiLU', tanh = 'Tanh',
  sigmoid = 'Sigmoid', softplus = 'Softplus' }

-- Each kind: its numbers in order, how many must be there, and what may stand as name = value.
local COMMON = { bias = 'boolean', act = ACTS }
local KINDS = {
  linear = { sizes = { 'n_in', 'n_out' }, least = 2, keys = COMMON },
  lowrank = { sizes = { 'n_in', 'n_out', 'rank' }, least = 2, keys = COMMON, need = 'rank' },
  sketched = { sizes = { 'n_in', 'n_out', 'num_terms', 'low_rank' }, least = 2,
    keys = { bias = 'boolean', act = ACTS, form = { 'auto', 'stored', 'bits', 'seed' } } },
  mlp = { least = 2, keys = COMMON },
  sequential = { nested = true, least = 1, keys = {} },
}
local OTHER_NAMES = { sklinear = 'sketched', dense = 'linear' }

local function names_of(...)
  local names = {}
  for i = 1, select('#', ...) do
    for name in pairs((select(i, ...))) do names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- Reading ------------------------------------------------------------------------------------

local function fail(state, message)
  blame.raise(('model %q: %s'):format(state.text, message), 'EARG', 'bench')
end

local function skip(state) state.at = state.text:find('%S', state.at) or #state.text + 1 end

local function take(state, pattern)
  skip(state)
  local found = state.text:match('^' .. pattern, state.at)
  if found then state.at = state.at + #found end
  return found
end

local function here(state)
  skip(state)
  local rest = state.text:sub(state.at, state.at + 11)
  return rest == '' and 'the end' or ("'%s'"):format(rest)
end

local function number_of(state, text)
  local n = tonumber(text)
  if not n or n ~= math.floor(n) or n < 1 or n > 2 ^ 40 then
    fail(state, ("%s is not a size; sizes are whole numbers from 1"):format(text))
  end
  return n
end

-- A number, or the name of a parameter as { parameter = name }.
local function size(state)
  local text = take(state, '[%d.]+[%w.]*')
  if text then return number_of(state, text) end
  local name = take(state, '[%a_][%w_]*')
  if name then return { parameter = name } end
  fail(state, ('a number is expected at %s'):format(here(state)))
end

local function value_of(state, node, key)
  local kind = KINDS[node.kind]
  for _, known in ipairs(kind.sizes or {}) do
    if known == key then return size(state) end
  end
  local rule = kind.keys[key]
  if not rule then
    local known = names_of(kind.keys)
    for _, name in ipairs(kind.sizes or {}) do known[#known + 1] = name end
    fail(state, ("%s has no '%s'%s; known: %s"):format(node.kind, key, near.hint(key, known),
      #known > 0 and table.concat(known, ', ') or 'nothing'))
  end
  local word = take(state, '[%w_]+')
  local said = word and ("'%s'"):format(word) or here(state) -- the rest of the text is in quotes
  if rule == 'boolean' then
    if word == 'true' or word == 'false' then return word == 'true' end
    fail(state, ('%s is true or false, not %s'):format(key, said))
  end
  for _, choice in ipairs(rule) do
    if choice == word then return word end
  end
  fail(state, ('%s is one of %s, not %s%s'):format(key, table.concat(rule, ', '), said,
    word and near.hint(word, rule) or ''))
end

local node_of

local function argument(state, node)
  local kind = KINDS[node.kind]
  skip(state)
  local key = state.text:match('^([%a_][%w_]*)%s*=', state.at)
  if key then
    take(state, '[%a_][%w_]*')
    take(state, '=')
    if node.options[key] ~= nil then fail(state, key .. ' stands twice') end
    node.options[key] = value_of(state, node, key)
  elseif kind.nested then
    node[#node + 1] = node_of(state)
  else
    local value = size(state)
    if kind.sizes and #node == #kind.sizes then
      fail(state, ('%s takes at most %d numbers: %s'):format(node.kind, #kind.sizes,
        table.concat(kind.sizes, ', ')))
    end
    node[#node + 1] = value
  end
end

-- Numbers by their names; those given twice or not at all are errors.
local function name_sizes(state, node)
  local kind = KINDS[node.kind]
  if #node < kind.least then
    fail(state, kind.nested and 'sequential{} has no layers'
      or ('%s wants at least %d numbers%s, got %d'):format(node.kind, kind.least,
        kind.sizes and ' (' .. table.concat(kind.sizes, ', ', 1, kind.least) .. ')' or '', #node))
  end
  for i, name in ipairs(kind.sizes or {}) do
    if node[i] ~= nil and node.options[name] ~= nil then fail(state, name .. ' stands twice') end
    node.options[name] = node.options[name] or node[i]
  end
  if kind.need and not node.options[kind.need] then
    fail(state, ('%s wants %s, as in %s{1024,512,%s=64}'):format(node.kind, kind.need, node.kind,
      kind.need))
  end
end

function node_of(state)
  state.depth = state.depth + 1
  if state.depth > MAX_DEPTH then fail(state, 'it is nested too deeply') end
  local name = take(state, '[%a_][%w_]*')
  if not name then fail(state, ('a layer is expected at %s'):format(here(state))) end
  local kind = OTHER_NAMES[name] or name
  local node = { kind = kind, options = {} }
  if MODULES[kind] then
    if take(state, '{') and not take(state, '}') then fail(state, name .. ' takes nothing') end
  elseif KINDS[kind] then
    if not take(state, '{') then fail(state, ("'{' is expected behind %s"):format(name)) end
    if not take(state, '}') then
      repeat argument(state, node) until not take(state, ',')
      if not take(state, '}') then
        fail(state, ("',' or '}' is expected at %s"):format(here(state)))
      end
    end
    name_sizes(state, node)
  else
    local known = names_of(KINDS, MODULES, OTHER_NAMES)
    fail(state, ("there is no layer '%s'%s; known: %s"):format(name, near.hint(name, known),
      table.concat(known, ', ')))
  end
  state.depth = state.depth - 1
  return node
end

--- Read a model; nothing is built.
-- >> require('ridge.bench.layer').parse 'linear{1024,4096}'
---@param text string
---@return table node kind, options, and its numbers or layers in order
function M.parse(text)
  if type(text) ~= 'string' or #text > MAX_TEXT then
    blame.raise(('bench: a model is a text like linear{1024,4096}, got %s'):format(type(text)),
      'EARG', 'bench')
  end
  local state = { text = text, at = 1, depth = 0 }
  local node = node_of(state)
  if here(state) ~= 'the end' then fail(state, ('it goes on at %s'):format(here(state))) end
  node.text = text
  return node
end

-- Parameters ---------------------------------------------------------------------------------

local function each_value(node, visit)
  for i, value in ipairs(node) do
    if type(value) == 'table' and value.kind then
      each_value(value, visit)
    elseif type(value) == 'table' and not (KINDS[node.kind].sizes) then
      visit(node, i, value.parameter)
    end
  end
  for key, value in pairs(node.options) do
    if type(value) == 'table' then visit(node.options, key, value.parameter) end
  end
end

--- The names of a model's parameters, sorted.
---@param node table from parse
---@return table names
function M.parameters(node)
  local seen = {}
  each_value(node, function(_, _, name) seen[name] = true end)
  return names_of(seen)
end

local function copy(node)
  local out = { kind = node.kind, text = node.text, options = {} }
  for i, value in ipairs(node) do
    out[i] = type(value) == 'table' and value.kind and copy(value) or value
  end
  for key, value in pairs(node.options) do out.options[key] = value end
  return out
end

--- A model whose parameters have their values.
---@param node table from parse
---@param values table parameter to number
---@return table node
function M.with(node, values)
  node = copy(node)
  each_value(node, function(where, key, name)
    local value = values[name]
    if value == nil then
      local known = names_of(values)
      blame.raise(("model %q: '%s' is no number and no parameter%s"):format(node.text, name,
        near.hint(name, known)), 'EARG', 'bench')
    end
    if type(value) ~= 'number' or value ~= math.floor(value) or value < 1 then
      blame.raise(('model %q: %s is %s; sizes are whole numbers from 1'):format(node.text, name,
        tostring(value)), 'EARG', 'bench')
    end
    where[key] = value
  end)
  return node
end

-- Building -----------------------------------------------------------------------------------

local BUILD = {}

local function layer_options(options, seed)
  return { bias = options.bias ~= false, activation = options.act or 'none', seed = seed }
end

function BUILD.linear(o, seed, nn) return nn.Linear(o.n_in, o.n_out, layer_options(o, seed)) end

function BUILD.lowrank(o, seed, nn)
  local given = layer_options(o, seed)
  given.rank = o.rank
  return nn.LowRankLinear(o.n_in, o.n_out, given)
end

function BUILD.sketched(o, seed, nn)
  local given = layer_options(o, seed)
  given.num_terms, given.low_rank, given.form, given.warn = o.num_terms, o.low_rank, o.form, false
  return nn.SKLinear(o.n_in, o.n_out, given)
end

-- The nodes of a model one after the other, with what an mlp stands for written out.
local function flat(node, out)
  if node.kind == 'sequential' then
    for _, inner in ipairs(node) do flat(inner, out) end
  elseif node.kind == 'mlp' then
    for i = 1, #node - 1 do
      local o = { n_in = node[i], n_out = node[i + 1], bias = node.options.bias }
      if i < #node - 1 then o.act = node.options.act or 'relu' end
      out[#out + 1] = { kind = 'linear', options = o }
    end
  else
    out[#out + 1] = node
  end
  return out
end

local function check_chain(node, list)
  local width, before
  for i, inner in ipairs(list) do
    local o = inner.options
    if o.n_in then
      if width and o.n_in ~= width then
        blame.raise(('model %q: layer %d (%s) takes %d numbers, the one before it (%s) gives %d')
          :format(node.text, i, inner.kind, o.n_in, before, width), 'ESHAPE', 'bench')
      end
      width, before = o.n_out, inner.kind
    end
  end
  if not width then
    blame.raise(('model %q: activations alone have no input size; put a linear layer into it')
      :format(node.text), 'EARG', 'bench')
  end
end

--- Build a model without parameters.
---@param node table from parse or with
---@param seed integer of the weights; layer i takes seed + i - 1
---@return table module
---@return integer n_in numbers of one sample
-- >> layer.build(layer.parse 'linear{8,4}', 1)
function M.build(node, seed)
  local nn = require 'ridge.nn'
  local list, modules, n_in = flat(node, {}), {}, nil
  check_chain(node, list)
  for i, inner in ipairs(list) do
    n_in = n_in or inner.options.n_in
    modules[i] = MODULES[inner.kind] and nn[MODULES[inner.kind]]()
      or BUILD[inner.kind](inner.options, seed + i - 1, nn)
  end
  return #modules == 1 and modules[1] or nn.Sequential(unpack(modules)), n_in
end

return M
