-- SPDX-License-Identifier: MIT
--- What %bench measures, made again in fresh processes: an expression that reads nothing that was
--- made at this prompt means the same in any process.

local environment = require 'ridge.repl.environment'
local lexer = require 'ridge.repl.lexer'
local parse = require 'ridge.repl.parse'

local M = {}

--- Does a text read nothing of a session's own variables?
---@param text string
---@param env table of the session
---@return boolean
function M.is_portable(text, env)
  for _, word in ipairs((lexer.words(text))) do
    local value = rawget(env, word.text)
    if value ~= nil and value ~= rawget(_G, word.text) then
      local ok, given = pcall(environment.given, word.text)
      if not ok or given ~= value then return false end
    end
  end
  return true
end

--- Time an expression in passes, each in a fresh process.
---@param text string
---@param protocol table
---@param cost table flops, bytes, dtype
---@return table result as of measure.fresh
function M.result(text, protocol, cost)
  local measure, literal = require 'ridge.measure.fresh', require 'ridge.measure.literal'
  local whole = require('ridge.measure').protocol(protocol)
  local source = { module = 'ridge.repl.fresh',
                   spec = literal.encode { text = text, cost = cost } }
  return select(2, measure.points(source, measure.in_passes(whole)))[1]
end

--- What a fresh process times.
---@param spec string of M.result
---@return table[] list see ridge.measure.fresh
function M.candidates(spec)
  local order = require('ridge.measure.literal').decode(spec)
  local parsed = parse.compile(order.text, '=[bench]')
  setfenv(parsed.chunk, environment.session())
  local function call() return (select(2, parsed.chunk())) end   -- an expression: nil, value
  local plan = require('ridge.plan').steps(call)
  return { { name = order.text, a = { plan = plan, cost = order.cost } } }
end

return M
