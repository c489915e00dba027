-- SPDX-License-Identifier: MIT
--- Functions of one and of two elements as tensor methods: x:relu(), x:relu_(), x:add(y).
-- They are bound by hand, since a tensor and a number can stand in each place, and since nothing is
-- called more often.

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local schema = require 'ridge.tensor.schema'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local slot, wrap, is, need, settle = ref.slot, ref.wrap, ref.is, ref.need, call.settle

--- Raise: one argument more than a method takes.
---@param name string of the method
---@param takes string its parameters
---@param value any the argument
function M.surplus(name, takes, value)
  blame.raise(('%s: %s is one argument too many; it takes %s'):format(name, blame.show(value),
    takes == '' and 'none' or takes), 'EARG', name)
end

local function bind_unary(name, doc)
  local f, f_ = C['rg_' .. name], C['rg_' .. name .. '_']
  methods[name] = function(x, more)
    if more ~= nil then M.surplus(name, '', more) end
    need(x, name)
    settle()
    local st = f(x._t, slot)
    if st ~= 0 then call.again(st, f, x._t, slot) end
    return wrap(slot[0])
  end
  methods[name .. '_'] = function(x, more)
    if more ~= nil then M.surplus(name .. '_', '', more) end
    need(x, name .. '_')
    local st = f_(x._t)
    if st ~= 0 then call.again(st, f_, x._t) end
    return x
  end
  docs[name] = doc
  docs[name .. '_'] = doc .. ', in place'
end

--- Raise: neither a tensor nor a number.
---@param name string the function asking
---@param value any
function M.bad_operand(name, value)
  blame.raise(('%s: a tensor or a number is expected, got %s'):format(name, blame.show(value)),
    'EARG', name)
end

--- A failed call of two operands: of an empty handle C only knows that it is nothing.
local function check_operands(name, x, y)
  if is(x) then need(x, name) end
  if is(y) then need(y, name) end
end

local function bind_binary(name, doc)
  local tt, ts = C['rg_' .. name], C['rg_' .. name .. '_scalar']
  local tt_, ts_ = C['rg_' .. name .. '_'], C['rg_' .. name .. '_scalar_']
  methods[name] = function(x, y, more)
    if more ~= nil then M.surplus(name, 'y', more) end
    settle()
    if is(x) then
      if is(y) then
        local st = tt(x._t, y._t, slot)
        if st ~= 0 then
          check_operands(name, x, y)
          call.again(st, tt, x._t, y._t, slot)
        end
      elseif type(y) == 'number' then
        local st = ts(x._t, y, 0, slot)
        if st ~= 0 then
          check_operands(name, x, y)
          call.again(st, ts, x._t, y, 0, slot)
        end
      else
        M.bad_operand(name, y)
      end
    elseif type(x) == 'number' and is(y) then
      local st = ts(y._t, x, 1, slot)
      if st ~= 0 then
        check_operands(name, x, y)
        call.again(st, ts, y._t, x, 1, slot)
      end
    else
      M.bad_operand(name, x)
    end
    return wrap(slot[0])
  end
  methods[name .. '_'] = function(x, y, more)
    if more ~= nil then M.surplus(name .. '_', 'y', more) end
    need(x, name .. '_')
    if is(y) then
      local st = tt_(x._t, y._t)
      if st ~= 0 then
        check_operands(name .. '_', x, y)
        call.again(st, tt_, x._t, y._t)
      end
    elseif type(y) == 'number' then
      local st = ts_(x._t, y)
      if st ~= 0 then call.again(st, ts_, x._t, y) end
    else
      M.bad_operand(name .. '_', y)
    end
    return x
  end
  docs[name] = doc
  docs[name .. '_'] = doc .. ', in place'
end

local function has(symbol)
  return (pcall(function() return C[symbol] end))
end

for _, record in ipairs(schema.records()) do
  if has('rg_' .. record.name .. '_scalar') then
    bind_binary(record.name, record.doc)
  elseif #record.inputs == 1 and #record.args == 0 and has('rg_' .. record.name .. '_') then
    bind_unary(record.name, record.doc)
  end
end

return M
