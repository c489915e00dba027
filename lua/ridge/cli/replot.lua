-- SPDX-License-Identifier: MIT
--- `ridge replot`: a figure drawn again from its own file.

local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'a figure drawn again from its own file: ridge replot map.png --theme dark'
M.usage = 'ridge replot FIGURE.png [--theme dark] [--size 2400x1500] [-o FILE]'

local SPEC = {
  about = [[
A figure of ridge carries its rows. Draws it again, in another look or size, over itself or into
another file.

    ridge replot map.png --theme dark --size 2400x1500 -o dark.png]],
  rest = 'FIGURE.png', most = 1,
  { 'theme', 'light', 'look', choices = { 'light', 'dark' } },
  { 'size', '', 'pixels, such as 2400x1500; as it was made when left out' },
  { 'o', '', 'file to write, - for standard output; the figure itself when left out', short = 'o',
    writes = 'file' },
}

--- Draw again.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('replot', SPEC, argv, nil, function(opt, rest)
    if not rest[1] then return stored.fail('replot', 'a figure is missing') end
    local size, reason = require('ridge.cli.plot').size(opt.size)
    if reason then return stored.fail('replot', reason) end
    local path = opt.o ~= '' and opt.o or rest[1]
    stored.picture(require('ridge.plot').replot(rest[1], { theme = opt.theme }), path,
      { theme = opt.theme, size = size })
  end)
end

return M
