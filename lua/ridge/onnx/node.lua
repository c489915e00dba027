-- SPDX-License-Identifier: MIT
--- A node of an ONNX file as operators see it: its attributes, checked as they are asked for.

local blame = require 'ridge.blame'
local file = require 'ridge.onnx.file'
local outside = require 'ridge.onnx.outside'

local Node = {}
Node.__index = Node

local LONGEST = 200 -- bytes of a name in a sentence

-- What a file holds is no command of a terminal, and no end of a line.
local function told(name)
  name = name:gsub('%c', ' ')
  return #name > LONGEST and name:sub(1, LONGEST) .. '...' or name
end

--- What it is called in messages: "Conv 'conv1'".
---@return string
function Node:label()
  local name = self.name ~= '' and self.name or self.outputs[1]
  return name and ("%s '%s'"):format(told(self.op), told(name)) or told(self.op)
end

--- Raise: the node cannot be computed.
---@param text string what is wrong, as one sentence
---@param ... any for its placeholders
function Node:fail(text, ...)
  blame.raise(('%s: %s'):format(self.op, (text:format(...):gsub('%c', ' '))), 'EARG', self.op)
end

local function given(self, name, kind)
  local a = self.attributes[name]
  if not a then return nil end
  if a.type ~= kind then
    self:fail('attribute %s is of type %s; expected %s', name, a.type, kind)
  end
  return a.value
end

local function or_default(self, name, value, default)
  if value ~= nil then return value end
  if default == nil then self:fail('attribute %s is missing', name) end
  return default
end

--- Is an attribute there?
---@param name string
---@return boolean
function Node:has(name)
  return self.attributes[name] ~= nil
end

--- A whole number.
---@param name string
---@param default number|nil an error where it is missing and nil
---@return number
function Node:int(name, default)
  local value = given(self, name, 'int')
  return or_default(self, name, value and tonumber(value), default)
end

--- A number.
---@param name string
---@param default number|nil
---@return number
function Node:float(name, default)
  return or_default(self, name, given(self, name, 'float'), default)
end

--- Text.
---@param name string
---@param default string|nil
---@return string
function Node:string(name, default)
  return or_default(self, name, given(self, name, 'string'), default)
end

--- A list of whole numbers, a copy.
---@param name string
---@return table|nil nil where it is missing
function Node:ints(name)
  local value, list = given(self, name, 'ints'), {}
  if not value then return nil end
  for i = 1, #value do list[i] = tonumber(value[i]) end
  return list
end

--- A list of numbers.
---@param name string
---@return table|nil
function Node:floats(name)
  return given(self, name, 'floats')
end

--- A list of texts.
---@param name string
---@return table|nil
function Node:strings(name)
  return given(self, name, 'strings')
end

--- A tensor.
---@param name string
---@return Tensor|nil
function Node:tensor(name)
  local value = given(self, name, 'tensor')
  return value and file.tensor(value)
end

--- Something computed of an input alone: beside a capture where the input is known.
---@param i number place of the input
---@param f function
---@param ... any its arguments
---@return any what f returns
function Node:apart(i, f, ...)
  if self.known and self.known[self.inputs[i]] then return outside.call(f, ...) end
  return f(...)
end

--- Is an output asked for?
---@param i number
---@return boolean
function Node:wants(i)
  return self.outputs[i] ~= nil and self.outputs[i] ~= ''
end

local M = { told = told }

--- A node as operators see it.
---@param raw table of a file
---@param opset number of its domain
---@return table
function M.of(raw, opset)
  return setmetatable({ op = raw.op, domain = raw.domain or '', name = raw.name or '',
    inputs = raw.inputs, outputs = raw.outputs, attributes = raw.attributes or {},
    opset = opset, kept = {} }, Node) -- kept: numbers of inputs (walk.lua)
end

return M
