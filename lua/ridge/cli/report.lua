-- SPDX-License-Identifier: MIT
--- `ridge report`: a sweep, or two databases held against each other, as one page.

local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'one page about a sweep: ridge report widths -o widths.html'
M.usage = "ridge report SWEEP [--for 'max NAME'] [-o FILE]; "
  .. 'ridge report --compare A.db B.db -o FILE'

local SPEC = {
  about = [[
A file that needs no server, no network and no JavaScript: the answer in three sentences, pictures
light and dark, the points with their intervals, failures, what disturbed them in plain words, where
and how they were measured, the recipe, the commands that make it again, and a CSV. At most 5 MB;
what was left out is said.

    ridge report widths -o widths.html
    ridge report --compare main.db pr.db -o both.html]],
  rest = 'SWEEP | A.db B.db', most = 2,
  { 'compare', false, 'two databases, the second one against the first' },
  { 'for', '', "what is best: 'max rows_per_s', 'min fwd'; the first phase when left out" },
  { 'mixed', false, 'with --compare: also where points of one file are of unlike machines' },
  { 'sweep', '', 'with --compare: only the sweep of this name' },
  { 'o', '', 'HTML file, - for standard output; SWEEP.html when left out', short = 'o',
    writes = 'file' },
  stored.DB,
}

local function given(text) return text ~= '' and text or nil end

--- Write the page.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('report', SPEC, argv, nil, function(opt, rest)
    local page, left, path
    if opt.compare then
      if #rest ~= 2 then return stored.fail('report', '--compare takes two databases') end
      if opt['for'] ~= '' then return stored.fail('report', '--for is of one sweep') end
      path = given(opt.o) or 'compare.html'
      page, left = require('ridge.report.compare').page(rest[1], rest[2],
        { sweep = given(opt.sweep), mixed = opt.mixed })
    else
      if #rest ~= 1 then
        return stored.fail('report', rest[1] and '--compare is missing before two databases'
          or 'a sweep is missing; ridge sweeps lists them')
      end
      if opt.mixed then return stored.fail('report', '--mixed is of --compare') end
      if opt.sweep ~= '' then return stored.fail('report', '--sweep is of --compare') end
      local store = require 'ridge.store'
      store.with(opt.db ~= '' and opt.db or store.default_path(), 'read', function(st)
        local sweep = require('ridge.store.query').sweep(st, rest[1])
        -- a stored name is no path
        path = given(opt.o) or sweep.name:gsub('[^%w_.-]', '_'):gsub('^[.]', '_') .. '.html'
        page, left = require('ridge.report.sweep').page(st, sweep.name,
          { wanted = given(opt['for']) })
      end)
    end
    if path == '-' then
      io.stdout:write(page)
    else
      require('ridge.ffi.output').write(path, 'report', page)
      plain.print(('%s: %.0f KB\n'):format(path, #page / 1024))
    end
    for _, sentence in ipairs(left) do plain.note('left out: ', sentence, '\n') end
  end)
end

return M
