-- SPDX-License-Identifier: MIT
--- `ridge replot`: a figure drawn again from its own file.

local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'a figure drawn again from its own file: ridge replot map.png --theme dark'
M.usage = 'ridge replot FIGURE.png [--theme dark] [--size 2400x1500] [-o FILE]'

local SPEC = {
  about = [[
A figure of ridge carries its rows. Draws it again, in another look or size, over itself or into
another file.

    ridge replot map.png --theme dark --size 2400x1500 -o dark.png

It takes a picture out of a page of ridge report, too: replot widths.html --picture 2.]],
  rest = 'FIGURE.png', most = 1,
  { 'picture', 1, 'of a page: which one, from 1', integer = true, min = 1 },
  { 'theme', 'light', 'look', choices = { 'light', 'dark' } },
  { 'size', '', 'pixels, such as 2400x1500; as it was made when left out' },
  { 'o', '', 'file to write, - for standard output; the figure itself when left out', short = 'o',
    writes = 'file' },
}

-- The bytes of a picture of a page; nil and why not.
local function picture_of(path, number)
  local file, reason = io.open(path, 'rb')
  if not file then return nil, ('%s cannot be read: %s'):format(path, reason) end
  local page, n = file:read '*a', 0
  file:close()
  for text in page:gmatch '<img src="data:image/png;base64,([A-Za-z0-9+/]+=?=?)"' do
    n = n + 1
    if n == number then return require('ridge.report.html').bytes(text) end
  end
  if n == 0 then return nil, path .. ' is no page of ridge report with pictures' end
  return nil, ('%s has %s'):format(path, plain.count(n, 'picture'))
end

-- The figure of a file; of a page, of its picture. Where it is drawn to when nobody says.
local function figure_of(path, opt)
  local plot, look = require 'ridge.plot', { theme = opt.theme }
  if not path:lower():find '%.html?$' then return plot.replot(path, look), path end
  local bytes, reason = picture_of(path, opt.picture)
  if not bytes then require('ridge.blame').raise(reason, 'EFORMAT') end
  local name = os.tmpname()
  require('ridge.ffi.output').write(name, 'replot', bytes)
  local ok, figure = pcall(plot.replot, name, look)
  os.remove(name)
  if not ok then -- the user knows the page, not the file its picture was put into
    if type(figure) == 'table' and type(figure.message) == 'string' then
      local first, last = figure.message:find(name, 1, true)
      if first then
        figure.message = ('%spicture %d of %s%s'):format(figure.message:sub(1, first - 1),
          opt.picture, path, figure.message:sub(last + 1))
      end
    end
    error(figure, 0)
  end
  return figure, ('%s-%d.png'):format(path:gsub('%.[^.]*$', ''), opt.picture)
end

--- Draw again.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('replot', SPEC, argv, nil, function(opt, rest)
    if not rest[1] then return stored.fail('replot', 'a figure is missing') end
    local size, reason = require('ridge.cli.plot').size(opt.size)
    if reason then return stored.fail('replot', reason) end
    local figure, path = figure_of(rest[1], opt)
    stored.picture(figure, opt.o ~= '' and opt.o or path, { theme = opt.theme, size = size })
  end)
end

return M
