-- SPDX-License-Identifier: MIT
--- The pictures of pictures.lua over rows that were changed: in another order, with equal values,
--- with intervals that begin at 0, without a column. What each says is approved whole, its strokes
--- by how many there are and a number made of them; where that differs, written.text of both tells.

jit.off(true, true) -- compiled loops that copy go wrong in LuaJIT of Debian 12 (ridge.options)

package.path = 'tests/lua/plot/?.lua;' .. package.path
local approved = dofile 'tests/lua/approved.lua'
local bit = require 'bit'
local pictures = require 'pictures'
local plot = require 'ridge.plot'
local recorder = require 'recorder'
local written = require 'written'

local function number_of(text)
  local h = 5381
  for i = 1, #text do h = bit.bxor(bit.lshift(h, 5) + bit.rshift(h, 27), text:byte(i)) end
  local _, lines = text:gsub('\n', '')
  return ('%d strokes %s'):format(lines, bit.tohex(h))
end

local function copy(rows)
  local out = {}
  for i, row in ipairs(rows) do
    out[i] = {}
    for name, value in pairs(row) do out[i][name] = value end
  end
  return out
end

-- What a picture says and draws; where there is none, why.
local function told(p, rows, size)
  local ok, text = pcall(function()
    local figure = plot.draw(p.kind, rows, p.opt)
    local given = { even = true }
    for name, value in pairs(p.given or {}) do given[name] = value end
    given.size = size or given.size
    local strokes = written.text(recorder.of(figure, given))
    return ('%d x %d | %s | %s | %s | %s\n    %s'):format(figure:width(), figure:height(),
      figure.title, figure.subtitle, figure.finding or 'no finding', number_of(strokes),
      (figure:text():gsub('\n', '\n    ')))
  end)
  return ok and text or type(text) == 'table' and text.code .. ' ' .. text.message
    or 'CRASHED ' .. text
end

local function reversed(rows)
  for i = 1, math.floor(#rows / 2) do
    rows[i], rows[#rows + 1 - i] = rows[#rows + 1 - i], rows[i]
  end
end

local function shuffled(rows)
  local seed = 1
  for i = #rows, 2, -1 do
    seed = seed * 16807 % 2147483647
    local k = seed % i + 1
    rows[i], rows[k] = rows[k], rows[i]
  end
end

local function halved(rows)
  for i = #rows, math.floor(#rows / 2) + 1, -1 do rows[i] = nil end
end

-- Every value that is drawn, with its interval, by a rule: the picture's column, what has an
-- interval, and some that have none.
local function valued(rule)
  return function(rows, opt)
    local columns = { [opt.y or 'ns'] = '', [opt.z or 'live'] = '', loss = '', peak_bytes = '' }
    for _, row in ipairs(rows) do
      for name in pairs(row) do
        local base, which = name:match '^(.*)_([lh][oi])$'
        if base and base ~= 'value' then columns[base], columns[name] = '', which end
      end
    end
    for column, which in pairs(columns) do
      local first = rows[1] and rows[1][column]
      for _, row in ipairs(rows) do
        local v = row[column]
        if type(v) == 'number' then row[column] = rule(v, which, first or v) end
      end
    end
  end
end

local CHANGES = { { 'reversed', reversed }, { 'shuffled', shuffled }, { 'half of them', halved },
  { 'a thousandfold', valued(function(v) return v * 1000 end) },
  { 'a millionth', valued(function(v) return v * 1e-6 end) },
  { 'all equal', valued(function(_, _, first) return first end) },
  { 'intervals from 0', valued(function(v, which) return which == 'lo' and 0 or v end) },
  { 'wide intervals', valued(function(v, which)
    return which == 'lo' and v / 4 or which == 'hi' and v * 4 or v
  end) },
  { 'none', function(rows)
    for i = #rows, 1, -1 do rows[i] = nil end
  end },
  { 'a text among them', function(rows) rows[2] = 'x' end },
  { 'the second failed', function(rows)
    if rows[2] then rows[2].state = 'error' end
  end },
  { 'disturbed', function(rows)
    for i, row in ipairs(rows) do
      if i % 2 == 0 then row.grade = 'D' end
    end
  end } }

describe('the pictures of the kind', function()
  local kinds, by = {}, {}
  for _, p in ipairs(pictures.LIST) do
    if not by[p.kind] then
      by[p.kind] = {}
      kinds[#kinds + 1] = p.kind
    end
    table.insert(by[p.kind], p)
  end
  for _, kind in ipairs(kinds) do
    it(kind .. ' over changed rows are what was approved', function()
      local out = {}
      for k, p in ipairs(by[kind]) do
        for _, change in ipairs(CHANGES) do
          local rows = copy(p.rows())
          change[2](rows, p.opt)
          out[#out + 1] = ('%s, %s: %s'):format(p.name, change[1], told(p, rows))
        end
        out[#out + 1] = p.name .. ', small: ' .. told(p, copy(p.rows()), { 420, 360 })
        local names, has = {}, {}
        for _, row in ipairs(k == 1 and p.rows() or {}) do
          for name in pairs(row) do
            if not has[name] then names[#names + 1] = name end
            has[name] = true
          end
        end
        table.sort(names)
        for _, name in ipairs(names) do
          local rows = copy(p.rows())
          for _, row in ipairs(rows) do row[name] = nil end
          out[#out + 1] = ('%s, without %s: %s'):format(p.name, name, told(p, rows))
        end
      end
      approved.check('plot/variants-' .. kind, table.concat(out, '\n'))
    end)
  end
end)
