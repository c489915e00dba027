-- SPDX-License-Identifier: MIT
--- Whole pictures, stroke by stroke, and whole maps of the terminal, as they were approved.

package.path = 'tests/lua/plot/?.lua;' .. package.path
local approved = dofile 'tests/lua/approved.lua'
local no_pictures = require 'no_pictures'
local pictures = require 'pictures'
local plot = require 'ridge.plot'
local recorder = require 'recorder'
local terminal = require 'ridge.plot.terminal'
local written = require 'written'

-- What a figure says in words.
local function words(figure)
  return table.concat({ ('%d x %d'):format(figure:width(), figure:height()), figure.title,
    figure.subtitle, figure.finding or 'no finding', figure:text() }, '\n')
end

describe('the picture', function()
  for _, p in ipairs(pictures.LIST) do
    it(p.name .. ' is what was approved', function()
      local figure = plot.draw(p.kind, p.rows(), p.opt)
      local text = words(figure) .. '\n'
      if not p.brief then
        local given = { even = true }
        for name, value in pairs(p.given) do given[name] = value end
        text = text .. written.text(recorder.of(figure, given))
      end
      approved.check('plot/' .. p.name, text)
    end)
  end
end)

describe('what is no picture', function()
  it('is told in the sentences that were approved', function()
    local out = {}
    for _, wrong in ipairs(no_pictures.WRONG) do
      local ok, err = pcall(function()
        plot.draw(wrong[1], wrong[2], wrong[3]):render { scale = 1 }:close()
      end)
      out[#out + 1] = ('%s: %s'):format(tostring(wrong[1]), ok and 'drawn'
        or type(err) == 'table' and ('%s %s'):format(err.code, err.message) or 'CRASHED ' .. err)
    end
    local figure = plot.draw('trust', { { kind = 'windows', ratio = 1, at_s = 1 } }, {})
    for _, wrong in ipairs(no_pictures.UNSAVED) do
      local ok, err = pcall(figure.save, figure, wrong[1], wrong[2])
      out[#out + 1] = 'save: ' .. (ok and 'saved' or err.code .. ' ' .. err.message)
    end
    approved.check('plot/errors', table.concat(out, '\n'))
  end)
end)

describe('the terminal', function()
  for _, p in ipairs(pictures.LIST) do
    if p.name:find '^map' or p.kind == 'ratio' or p.name == 'efficiency' then
      it('shows ' .. p.name .. ' as it was approved', function()
        local figure = plot.draw(p.kind, p.rows(), p.opt)
        local out = {}
        for _, opt in ipairs { { depth = 'none' }, { depth = '256', theme = 'light', lines = 6 },
            { depth = 'true', columns = 40, lines = 3 } } do
          for _, line in ipairs(terminal.lines(figure, opt)) do
            out[#out + 1] = (line:gsub('\27', '\\'))
          end
        end
        approved.check('plot/terminal-' .. p.name, table.concat(out, '\n'))
      end)
    end
  end
end)
