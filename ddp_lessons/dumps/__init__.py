"""What a job left behind, dumps of torch's Flight Recorder or a log, explained as `launch` explains a hang."""
