"""What a broker does that is alone where several were: it takes over all their partitions before it starts. Others pay a look for it."""

from millstream.broker.server_options import ServerOptions
from millstream.processes.layout import Layout, has_processes


async def take_over(options: ServerOptions) -> None:
    """Give all partitions in the data directories to this broker, if several processes had them; StartupError if that cannot be done."""
    if options.zookeeper is not None or not has_processes(options.data):
        return
    from millstream.clock import SystemClock
    from millstream.files import Files
    from millstream.processes.machine_data import MachineData

    machine = MachineData(options.data, clock=SystemClock(), files=Files(), forgotten=options.forget_directories)
    async with machine.opened():
        await machine.arrange(Layout.alone(options.node_id))
