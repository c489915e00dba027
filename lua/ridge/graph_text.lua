-- SPDX-License-Identifier: MIT
--- Graphs as printed text, beside what the core does: sizes that may change stand in it as
--- functions of their name, "f32[<N>,<2*N+1>]", and tensors are given to what is read.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local symbolic = require 'ridge.graph_sizes'

local M = {}

local HEAD = '^(graph of [^\n]-), ([%a_][%w_]*) = (%d+)\n'

-- The text of a graph whose comments stand at no column, which depends on sizes.
local function narrow(text)
  local lines = {}
  for line in text:gmatch '[^\n]+' do
    line = line:gsub('^(%s*%%%d+: %w+%b[]%S*)%s+(%a)', '%1  %2'):gsub('%s+; ', '  ; ', 1)
    lines[#lines + 1] = line
  end
  return table.concat(lines, '\n') .. '\n'
end

--- The text of a graph that was recorded with sizes that may change.
---@param graph table
---@param print function a graph as text
---@return string
function M.print(graph, print)
  local sizes = graph._sizes
  local texts = {}
  if not symbolic.at(graph, sizes.value):same(graph) then return print(graph) end -- it was edited
  for i, n in ipairs(symbolic.AT) do
    texts[i] = narrow(print(symbolic.at(graph, n)))
    if texts[i]:find '<' then return print(graph) end -- a name: no reader could tell them apart
  end
  local text = symbolic.text(symbolic.join(texts, sizes.name), sizes.name)
  return (text:gsub('^(graph of [^\n]*)', ('%%1, %s = %d'):format(sizes.name, sizes.value)))
end

-- A function of the size at n; nil: it is none.
local function at(formula, name, n)
  local slope, rest = formula:match '^(%-?[%d.e+-]+)%*(.*)$'
  local start = (rest or formula):sub(#name + 1)
  if (rest or formula):sub(1, #name) ~= name then return nil end
  local a, b = tonumber(slope or 1), tonumber(start == '' and 0 or start)
  return a and b and a * n + b
end

local function text_at(text, name, n)
  return (text:gsub('<([^<>\n]*)>', function(formula)
    local value = at(formula, name, n)
    return value and symbolic.number_text(value)
  end))
end

-- A graph for every size out of the text of one.
local function with_sizes(text, parse)
  local _, name, value = text:match(HEAD)
  local body = text:gsub(HEAD, '%1\n')
  if not symbolic.is_size(tonumber(value)) then
    blame.raise(('graph.parse: line 1: %s is %s, and has to be a whole number from 1 to 2147483648')
      :format(name, value), 'EFORMAT', 'graph')
  end
  local jsons = {}
  for i, n in ipairs(symbolic.AT) do jsons[i] = parse(text_at(body, name, n)):json() end
  local graph = parse(text_at(body, name, tonumber(value)))
  graph._sizes = { name = name, value = tonumber(value), parts = symbolic.join(jsons, name),
    parse = parse }
  return graph
end

local OPTIONS = {
  tensors = { 'table', doc = "tensors by name, or by number as the text has it ('%7'): constants, "
    .. 'parameters, inputs' },
}

-- What no node makes, by its number in the text: the n-th such line is value n - 1.
local function begins(text)
  local by, n = {}, 0
  for line in text:gmatch '[^\n]+' do
    local id = line:match '^  (%%%d+): %w+%b[]%S*%s+%a'
    if id then
      by[id], n = n, n + 1
    elseif line:find '^  ' then
      break
    end
  end
  return by
end

-- Let tensors hold values.
local function bind(graph, text, tensors)
  local by = begins(text)
  for _, value in ipairs(graph:values()) do
    if value.kind ~= 'intermediate' and value.name and by[value.name] == nil then
      by[value.name] = value.id
    end
  end
  for key, x in pairs(tensors) do
    local id = by[key]
    if not id then
      local known = {}
      for name in pairs(by) do known[#known + 1] = name end
      local near = blame.near(tostring(key), known)
      blame.raise(('graph.parse: the text has no %s%s'):format(blame.show(key),
        near and (" (did you mean '%s'?)"):format(near) or ''), 'EARG', 'graph')
    end
    ref.need(x, 'graph.parse')
    local status = C.rg_graph_bind(graph._p, id, x._t)
    if status ~= 0 then
      blame.raise(('graph.parse: %s: %s'):format(key, ffi.string(C.rg_error_message())),
        call.code(status), 'graph')
    end
  end
end

--- A graph out of a text.
---@param text string printed, or JSON
---@param opts table|nil {tensors = {name = tensor}}
---@param parse function a graph out of a text of the core's
---@return table graph
function M.parse(text, opts, parse)
  opts = options.check(OPTIONS, opts or {}, 'graph.parse')
  local graph = text:find(HEAD) and with_sizes(text, parse) or parse(text)
  if opts.tensors then bind(graph, text, opts.tensors) end
  return graph
end

return M
