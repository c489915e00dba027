-- SPDX-License-Identifier: MIT
--- A value as a notebook shows it: its text, and its page and picture where its class has them.

local inspect = require 'ridge.repl.inspect'
local shown = require 'ridge.show.value'
local summary = require 'ridge.show.summary'
local terminal = require 'ridge.plot.terminal'
local utf8 = require 'ridge.utf8'

local M = {}

--- Data by kind, and what is to be known of it.
---@param value any
---@return table data 'text/plain', 'text/html', 'image/png'
---@return table metadata
function M.of(value)
  local data, metadata = {}, {}
  data['text/plain'] = utf8.clean(inspect.value(value, { width = summary.columns() }))
  local html = shown.html(value)
  local png, why = shown.png(value)
  if png then
    data['image/png'] = terminal.base64(png)
    if type(value) == 'table' and type(rawget(value, 'natural')) == 'table' then -- a figure
      metadata['image/png'] = { width = value:width(), height = value:height() }
    end
  end
  if html then -- shown before a picture: it has the picture
    data['text/html'] = utf8.clean(html) .. (png and
      ('<img alt="" src="data:image/png;base64,%s">'):format(data['image/png']) or '')
  elseif why then
    data['text/plain'] = data['text/plain'] .. '\n' .. utf8.clean(why)
  end
  return data, metadata
end

--- Several values: their texts.
---@param n integer
---@param values any[]
---@return table data
function M.texts(n, values)
  local lines = {}
  for i = 1, n do
    lines[i] = utf8.clean(inspect.value(values[i], { width = summary.columns() }))
  end
  return { ['text/plain'] = table.concat(lines, '\n') }
end

return M
