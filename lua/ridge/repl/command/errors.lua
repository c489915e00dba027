-- SPDX-License-Identifier: MIT
--- %tb and %debug: more about the last error.

local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local inspect = require 'ridge.repl.inspect'
local report = require 'ridge.repl.report'

local function tb(session)
  local failed = session.failed
  if not failed then
    session.write 'there was no error yet\n'
    return
  end
  session.write(report.text(failed) .. '\n')
  if failed.traceback ~= '' and not report.wants_trace() then
    session.write(colour.paint('dim', failed.traceback) .. '\n')
  end
end

local function debug_locals(session)
  local failed = session.failed
  if not failed then
    session.write 'there was no error yet\n'
    return
  end
  local any = false
  for _, frame in ipairs(failed.frames) do
    session.write(frame.place .. (frame.text and colour.paint('dim', '  ' .. frame.text) or '')
      .. '\n')
    local rows = {}
    for _, variable in ipairs(frame.locals or {}) do
      any = true
      local text = inspect.value(variable.value, { depth = 1, items = 6, width = 200 })
      rows[#rows + 1] = { '  ' .. variable.name, (text:match '[^\n]*$') }
    end
    if #rows > 0 then session.write(columns.text({ '  local', 'value' }, rows) .. '\n') end
  end
  if not any then session.write 'no locals: the error was at the top of what was typed\n' end
end

return {
  tb = {
    usage = '%tb', takes = 'words', run = tb,
    about = 'the last error with all its frames\n%set trace full shows them always.',
  },
  debug = {
    usage = '%debug', takes = 'words', run = debug_locals,
    about = 'the locals of your functions at the last error',
  },
}
