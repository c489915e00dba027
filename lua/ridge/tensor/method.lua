-- SPDX-License-Identifier: MIT
--- Methods of tensors, made from the records: for each one a function that checks and converts what
--- was given and calls C once.
--
-- Its text is put together from the schema and compiled, so that it is as fast as if it were
-- written by hand: no loop over arguments and no table is left in it.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local arguments = require 'ridge.tensor.arguments'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local dtype = require 'ridge.tensor.dtype'
local elementwise = require 'ridge.tensor.elementwise'
local options = require 'ridge.options'
local random = require 'ridge.random'
local schema = require 'ridge.tensor.schema'

local M = {}

-- -- Arguments ----------------------------------------------------------------------------

local MOST = 2 ^ 31 - 1 -- what C takes for an axis: it says itself which ones there are
local axes_t = ffi.typeof 'int32_t[8]'

--- An axis as C counts it: 1 is the first, negative counts from the end.
---@param axis number
---@param what string the function asking, for errors
---@return number
function M.axis(axis, what)
  if type(axis) ~= 'number' or axis ~= math.floor(axis) then
    blame.raise(('%s: an axis is a whole number, got %s'):format(what, blame.show(axis)),
      'EAXIS')
  end
  if axis == 0 then
    blame.raise(('%s: axes count from 1 (the first) or -1 (the last); there is no axis 0'):format(
      what), 'EAXIS')
  end
  if math.abs(axis) > MOST then
    blame.raise(('%s: there is no axis %s'):format(what, blame.show(axis)), 'EAXIS')
  end
  return axis > 0 and axis - 1 or axis
end

-- Lists of one axis, by the axis; nobody writes into them again.
local ALL, ONE = axes_t(), {}
for axis = -8, 7 do
  ONE[axis] = axes_t()
  ONE[axis][0] = axis
end

--- Axes of a reduction as C reads them, and how many; nil is all of them.
local function axes_of(axes, what)
  if axes == nil then return ALL, 0 end
  if type(axes) == 'number' then
    local axis = M.axis(axes, what)
    local list = ONE[axis]
    if not list then
      list = axes_t()
      list[0] = axis
    end
    return list, 1
  end
  if type(axes) ~= 'table' or #axes > 8 then
    blame.raise(('%s: axes are a number or a list of numbers'):format(what), 'EAXIS')
  end
  options.list(axes, what)
  local list = axes_t()
  for i, axis in ipairs(axes) do list[i - 1] = M.axis(axis, what) end
  return list, #axes
end

--- A number, or the default where nothing is given.
---@param value any
---@param name string the function asking
---@param what string the argument
---@return number
function M.number(value, name, what)
  if type(value) ~= 'number' then
    blame.raise(('%s: %s is a number, got %s'):format(name, what, blame.show(value)), 'EARG', name)
  end
  return value
end

local function whole(value, name, what)
  if M.number(value, name, what) ~= math.floor(value) or math.abs(value) > 2 ^ 53 then
    blame.raise(('%s: %s is a whole number, got %s'):format(name, what, blame.show(value)), 'EARG',
      name)
  end
  return value
end

local function act(value, name)
  local code = schema.ACT[value]
  if not code then
    blame.raise(('%s: there is no activation %s'):format(name, blame.show(value)), 'EARG', name)
  end
  return code
end

-- -- Text ---------------------------------------------------------------------------------

-- What checks and converts an argument of a kind: %s is its name, then its default.
local CONVERT = {
  number = 'if %s == nil then %s = %s end number(%s, NAME, %q)',
  share = 'if %s == nil then %s = %s end number(%s, NAME, %q)',
  whole = 'if %s == nil then %s = %s end whole(%s, NAME, %q)',
}

-- One argument: a line that converts it, and what C is given.
local function convert(arg)
  local name, default = arg.name, schema.default_text(arg)
  if CONVERT[arg.kind] then
    return CONVERT[arg.kind]:format(name, name, default or 'nil', name, name), name
  elseif arg.kind == 'flag' then
    return ('if %s ~= nil and %s ~= true and %s ~= false then flag(%s, NAME, %q) end'):format(name,
      name, name, name, name), name .. ' and 1 or 0'
  elseif arg.kind == 'axis' then
    return ('%s = axis_of(%s or %s, NAME)'):format(name, name, default), name
  elseif arg.kind == 'axes' then
    return ('local axes_at, n = axes_of(%s, NAME)'):format(name), 'axes_at, n'
  elseif arg.kind == 'dtype' then
    return ('%s = dtype_code(%s, NAME)'):format(name, name), name
  elseif arg.kind == 'act' then
    return ('%s = act(%s or %q, NAME)'):format(name, name, default or ''), name
  end
  error('no method takes an argument of kind ' .. arg.kind)
end

local HEAD = [[
local C, NAME, f, slot, need, wrap, settle, again, check, axis_of, axes_of, number, whole,
  dtype_code, act, pointer, take, slots, flag, surplus, TAKES = ...
]]

-- What an operation without a function of its own is given: tensors in a list, arguments in their
-- struct (ridge.tensor.arguments). The list is written where nothing is collected before the call,
-- and once more for a second try: compiled code holds a tensor only up to its last use.
local function through_schema(record, tensors, args, values, lines)
  local list = {}
  lines[#lines + 1] = 'local set = take(); local inputs = set.inputs'
  for i, tensor in ipairs(tensors) do list[i] = ('inputs[%d] = %s'):format(i - 1, tensor) end
  for i, arg in ipairs(args) do
    lines[#lines + 1] = ('set.at_%s[0] = %s'):format(arg.name, values[i])
  end
  return list, { record.index, 'inputs', #tensors, 'set.bytes',
           record.draws and 'pointer(generator, NAME)' or 'nil' }
end

--- Does C have a function for a record, by its own name?
---@param record ridge.tensor.Record
---@return boolean
local function has_own(record)
  local symbol = 'rg_' .. record.name .. (record.into and '_' or '')
  return (pcall(function() return C[symbol] end))
end

--- The text of a record's method.
---@param record ridge.tensor.Record
---@return string
function M.text(record)
  local parameters, lines, given, values = { 'x' }, { "need(x, NAME)" }, { 'x._t' }, {}
  for i = record.into and 1 or 2, #record.inputs do
    local name = record.inputs[i].name
    parameters[#parameters + 1] = name
    lines[#lines + 1] = ('need(%s, NAME)'):format(name)
    given[#given + 1] = name .. '._t'
  end
  -- Paying memory debt calls who watches memory: in front of all that is filled in, and behind the
  -- look at the tensors, which were released where the Lua state has closed and C is gone.
  lines[#lines + 1] = 'settle()'
  local args = schema.named(record)
  for i, arg in ipairs(args) do
    parameters[#parameters + 1] = arg.name
    lines[#lines + 1], values[i] = convert(arg)
  end
  local list, own = {}, has_own(record)
  if own then
    for _, value in ipairs(values) do given[#given + 1] = value end
    if record.draws then given[#given + 1] = 'pointer(generator, NAME)' end
  else
    list, given = through_schema(record, given, args, values, lines)
  end
  if record.draws then parameters[#parameters + 1] = 'generator' end
  parameters[#parameters + 1] = 'more'
  table.insert(lines, 1, 'if more ~= nil then surplus(NAME, TAKES, more) end')
  -- a second result is read when the first has a handle: no other call may write there
  local results, made = {}, #record.results > 1 and not record.into and 'made' or 'slot'
  if made == 'made' then lines[#lines + 1] = 'local made = slots()' end
  for i = 1, record.into and 0 or #record.results do
    given[#given + 1] = i == 1 and made or made .. ' + ' .. i - 1
    results[i] = ('wrap(%s[%d])'):format(made, i - 1)
  end
  local c = table.concat(given, ', ')
  local fill = table.concat(list, '; ')
  lines[#lines + 1] = fill
  -- a draw that was taken is gone: there is no second try
  lines[#lines + 1] = record.draws
    and ('local st = f(%s)\n  if st ~= 0 then check(st, NAME) end'):format(c)
    or ('local st = f(%s)\n  if st ~= 0 then %s again(st, f, %s) end'):format(c, fill, c)
  if not own then lines[#lines + 1] = 'set.taken = false' end
  lines[#lines + 1] = 'return ' .. (record.into and 'x' or table.concat(results, ', '))
  return ('%sreturn function(%s)\n  %s\nend\n'):format(HEAD, table.concat(parameters, ', '),
    table.concat(lines, '\n  '))
end

--- The method of a record, its name and its line of help.
---@param record ridge.tensor.Record
---@return string name with _ behind it where it writes into its tensor
---@return function
---@return string doc 'softmax(axis = -1): exp(x), scaled to sum to one along an axis'
function M.make(record)
  local name = record.name .. (record.into and '_' or '')
  local compiled = assert(loadstring(M.text(record), '@ridge/tensor/method/' .. name))
  local own = has_own(record)
  local parameters = schema.signature(record):match '%((.*)%) %->':gsub('^x,? ?', '')
  local method = compiled(C, name, own and C['rg_' .. name] or C.rg_op_call, ref.slot, ref.need,
    ref.wrap, call.settle, call.again, call.check, M.axis, axes_of, M.number, whole,
    dtype.code, act, random.pointer, not own and arguments.of(record), ref.slots, options.flag,
    elementwise.surplus, parameters)
  return name, method, ('%s(%s): %s'):format(name, parameters, record.doc)
end

-- -- Help ---------------------------------------------------------------------------------

-- What one types for an argument of a kind.
local TYPED = { number = 'number', share = 'number', whole = 'number', flag = 'boolean',
  axis = 'number', axes = 'number|table', dtype = 'string', act = 'string' }

--- The docstrings of all methods that are functions of records, elementwise ones too.
---@return ridge.repl.Entry[]
function M.entries()
  local list = {}
  for _, record in ipairs(schema.records()) do
    if record.method then
      local names, params = {}, {}
      for i = record.into and 1 or 2, #record.inputs do
        local input = record.inputs[i]
        names[#names + 1] = input.name
        params[#params + 1] = { name = input.name, text = '',
          type = input.optional and 'Tensor|number' or 'Tensor' }
      end
      for _, arg in ipairs(schema.named(record)) do
        local default = schema.default_text(arg)
        names[#names + 1] = arg.name
        params[#params + 1] = { name = arg.name, type = TYPED[arg.kind],
          text = default and ('%s; %s when left out'):format(arg.doc, default) or arg.doc }
      end
      if record.draws then
        names[#names + 1] = 'generator'
        params[#params + 1] = { name = 'generator', type = 'Generator',
          text = 'a stream of ridge.generator; the default one when left out' }
      end
      local returns = {}
      for i, result in ipairs(record.results) do returns[i] = { type = 'Tensor', text = result } end
      list[#list + 1] = { name = record.name .. (record.into and '_' or ''), method = true,
        of_tensor = true, owner = 'Tensor', module = 'ridge.tensor.method',
        parameters = table.concat(names, ', '), text = record.doc, params = params,
        returns = returns, examples = {} }
    end
  end
  return list
end

return M
